"""Remote storage shared by brokers of both kinds: segments copied by one are read and deleted by the other.

Needs Aiven's plugin in TIDELOG_AIVEN_CLASSPATH.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from tests.kafka.mixed_tiering import (
    EARLIEST,
    EARLIEST_LOCAL,
    KAFKA,
    OTHER,
    OURS,
    SEGMENT_BYTES,
    TIERED,
    MixedTier,
)
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until

TOPIC = ConfigResource.Type.TOPIC
FIRST = {Engine.KAFKA: KAFKA, Engine.TIDELOG: OURS}


@pytest.fixture(scope="module", params=list(Engine), ids=["topic-of-Kafka", "topic-of-Tidelog"])
def tier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedTier]:
    """Run the cluster; a broker of one kind or the other has created the metadata topic."""
    new_tier = MixedTier(tmp_path_factory.mktemp("tier"))
    try:
        new_tier.start(FIRST[request.param])
        yield new_tier
    finally:
        new_tier.cluster.end()


def lines(count: int, seed: int) -> list[str]:
    randomness = random.Random(seed)
    return [f"{number} {randomness.randbytes(500).hex()}" for number in range(count)]


def transactions(tier: MixedTier, topic: str, count: int) -> list[str]:
    """Write transactions, every other of which is aborted; return the committed values."""
    servers = tier.brokers[KAFKA].address
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(WITHIN_S)
    committed: list[str] = []
    for number in range(count):
        values = lines(300, number)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(WITHIN_S)
        if number % 2 == 0:
            producer.abort_transaction(WITHIN_S)
        else:
            producer.commit_transaction(WITHIN_S)
            committed += values
    return committed


def test_kafka_and_tidelog_leaders_alternately_copy_read_and_delete_segments(tier: MixedTier) -> None:
    tier.clients.create_topic("tides", [[KAFKA, OURS]], **TIERED)
    written: list[str] = []
    start, served = 0, b""
    for turn, replicas in enumerate([(KAFKA, OURS), (OURS, KAFKA), (KAFKA, OURS), (OURS, KAFKA)]):
        tier.place("tides", replicas)
        assert tier.raw("tides", start) == served
        more = lines(3000, turn)
        tier.clients.produce("tides", more)
        written += more
        assert start < tier.wait_until_tiered("tides", *replicas)
        start = tier.offset("tides", EARLIEST_LOCAL)
        assert tier.offset("tides", EARLIEST) == 0
        assert tier.clients.read("tides", len(written)) == written
        served = tier.raw("tides", start)
    assert len(served) > 10 * SEGMENT_BYTES


@pytest.mark.parametrize(("leader", "newcomer"), [(KAFKA, OURS), (OURS, KAFKA)], ids=["ours", "Kafkas"])
def test_an_empty_follower_starts_after_segments_copied_by_the_other_implementation(
    leader: int, newcomer: int, tier: MixedTier
) -> None:
    topic = f"grown-{newcomer}"
    tier.clients.create_topic(topic, [[leader, OTHER]], **TIERED)
    written: list[str] = []
    # Epochs of several leaders are in the tier before the new follower starts.
    for replicas in ((leader, OTHER), (OTHER, leader), (leader, OTHER)):
        tier.place(topic, replicas)
        more = lines(1500, len(written))
        tier.clients.produce(topic, more)
        written += more
    start = tier.wait_until_tiered(topic, leader, OTHER)
    tier.place(topic, [leader, newcomer])
    assert tier.segments(tier.brokers[newcomer], topic) == [start]
    # A follower learns the current epoch from its records.
    tier.clients.produce(topic, lines(10, 98))
    written += lines(10, 98)
    assert tier.checkpoint(newcomer, topic) == tier.checkpoint(leader, topic)
    # Apache Kafka's follower fetches the producer snapshot from the tier and deletes it at once, because it
    # has an empty snapshot of the same offset on its list of deletions (reported in apache/kafka#14652).
    if newcomer == OURS:
        snapshot = f"{start:020}.snapshot"
        producers = tier.dump(newcomer, topic, snapshot)
        assert producers != []
        assert sorted(producers) == sorted(tier.dump(leader, topic, snapshot))
    assert tier.brokers[newcomer].log_bytes(f"{topic}-0") == tier.brokers[leader].log_bytes(f"{topic}-0")
    name = f"{start:020}.log"
    assert tier.dump(newcomer, topic, name, "--deep-iteration") == tier.dump(
        leader, topic, name, "--deep-iteration"
    )
    served = tier.raw(topic, start)
    tier.place(topic, [newcomer, leader])
    assert tier.clients.read(topic, len(written)) == written
    assert tier.raw(topic, start) == served
    more = lines(3000, 99)
    tier.clients.produce(topic, more)
    assert tier.wait_until_tiered(topic, leader, newcomer) > start
    written += more
    assert tier.clients.read(topic, len(written)) == written


@pytest.mark.parametrize("copier", [KAFKA, OURS], ids=["Apache Kafka", "Tidelog"])
def test_aborted_transactions_in_the_tier_are_read_by_both_implementations(
    copier: int, tier: MixedTier
) -> None:
    topic, other = f"aborted-{copier}", OURS if copier == KAFKA else KAFKA
    tier.clients.create_topic(topic, [[KAFKA, OURS]], **{**TIERED, "remote_storage_enable": "false"})
    # Apache Kafka's broker is leader and coordinator; copies may be made by another leader.
    written = transactions(tier, topic, 12)
    tier.place(topic, [copier, other])
    tier.clients.set_config(TOPIC, topic, "remote.storage.enable", "true", tier.brokers[copier])
    start = tier.wait_until_tiered(topic, copier, other)
    served = tier.raw(topic, start)
    for replicas in ((copier, OTHER), (OTHER, other), (other, copier), (copier, other)):
        tier.place(topic, replicas)
        # The default of librdkafka is read_committed.
        assert tier.clients.read(topic, len(written)) == written
        assert tier.raw(topic, start) == served
        written += lines(100, 5)
        tier.clients.produce(topic, lines(100, 5))


@pytest.mark.parametrize("first", [KAFKA, OURS], ids=["Apache Kafka", "Tidelog"])
def test_retention_and_deletion_remove_segments_of_the_other_implementation(
    first: int, tier: MixedTier
) -> None:
    topic, second = f"kept-{first}", OURS if first == KAFKA else KAFKA
    tier.clients.create_topic(topic, [[first, second]], **TIERED)
    tier.clients.produce(topic, lines(3000, 1))
    tier.wait_until_tiered(topic, first, second)
    old = tier.objects(topic)
    tier.place(topic, [second, first])
    tier.clients.produce(topic, lines(3000, 2))
    end = tier.wait_until_tiered(topic, first, second)
    contacted = tier.brokers[second]
    tier.clients.set_config(TOPIC, topic, "retention.bytes", str(2 * SEGMENT_BYTES), contacted)
    wait_until(lambda: not old & tier.objects(topic), timeout_s=WITHIN_S)
    start = tier.offset(topic, EARLIEST)
    assert 0 < start < end
    wait_until(
        lambda: all(log_start(tier, each, topic) == start for each in (first, second)), timeout_s=WITHIN_S
    )
    left = 6000 - start
    tier.place(topic, [first, second])
    assert tier.offset(topic, EARLIEST) == start
    assert tier.clients.read(topic, left) == lines(3000, 2)[-left:]
    tier.clients.delete_topic(topic, contacted)
    wait_until(lambda: not tier.objects(topic), timeout_s=WITHIN_S)


def has_fewer_objects(tier: MixedTier, topic: str, before: set[str]) -> bool:
    return tier.objects(topic) < before


@pytest.mark.parametrize("leader", [KAFKA, OURS], ids=["Apache Kafka", "Tidelog"])
def test_delete_records_deletes_remote_and_local_records(leader: int, tier: MixedTier) -> None:
    topic, follower = f"cut-{leader}", OURS if leader == KAFKA else KAFKA
    tier.clients.create_topic(topic, [[follower, leader]], **TIERED)
    written = lines(4000, 3)
    tier.clients.produce(topic, written)
    border = tier.wait_until_tiered(topic, leader, follower)
    before = tier.objects(topic)
    tier.place(topic, [leader, follower])
    for cut in (border // 2, border, border + 3):
        admin = tier.clients.admin()
        deleted = admin.delete_records([TopicPartition(topic, 0, cut)])
        assert [future.result(WITHIN_S).low_watermark for future in deleted.values()] == [cut]
        assert tier.offset(topic, EARLIEST) == cut
        assert tier.clients.read(topic, 4000 - cut) == written[cut:]
        wait_until(partial(has_fewer_objects, tier, topic, before), timeout_s=WITHIN_S)
        before = tier.objects(topic) or before
    wait_until(lambda: not tier.objects(topic), timeout_s=WITHIN_S)
    tier.place(topic, [follower, leader])
    assert tier.clients.read(topic, 4000 - border - 3) == written[border + 3 :]


def log_start(tier: MixedTier, number: int, topic: str) -> int:
    """Return a replica's log start from the checkpoint; `kafka-log-dirs` does not report it."""
    text = (tier.brokers[number].directory / "log-start-offset-checkpoint").read_text()
    offsets = [line.split()[2] for line in text.splitlines() if line.startswith(f"{topic} 0 ")]
    return int(offsets[0]) if offsets else 0


@pytest.mark.parametrize("number", [KAFKA, OURS], ids=["Apache Kafka", "Tidelog"])
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_restarted_broker_finds_segments_of_both_implementations(
    clean: bool, number: int, tier: MixedTier
) -> None:
    topic = f"restarted-{number}-{clean}"
    other = OURS if number == KAFKA else KAFKA
    tier.clients.create_topic(topic, [[number, other]], **TIERED)
    written: list[str] = []
    for turn, replicas in enumerate([(number, other), (other, number)]):
        tier.place(topic, replicas)
        more = lines(3000, turn)
        tier.clients.produce(topic, more)
        written += more
        tier.wait_until_tiered(topic, number, other)
    tier.place(topic, [number, other])
    (tier.cluster.stop if clean else tier.cluster.kill)(tier.brokers[number])
    tier.clients.wait_for_leader_other_than(tier.brokers[number], topic)
    more = lines(1500, 7)
    tier.clients.produce(topic, more)
    written += more
    tier.cluster.start(tier.brokers[number])
    tier.clients.wait_for_brokers(*tier.brokers)
    tier.clients.wait_until_whole(topic)
    for replicas in ((number, other), (other, number)):
        tier.place(topic, replicas)
        start = tier.wait_until_tiered(topic, number, other)
        assert tier.clients.read(topic, len(written)) == written
        assert tier.offset(topic, EARLIEST_LOCAL) == start
