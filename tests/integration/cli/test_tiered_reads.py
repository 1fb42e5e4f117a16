"""Clients of several authors read remote records of topics like local ones."""

from __future__ import annotations

import os
import random

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignClient, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.partition_writer import PartitionWriter
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.compression import Compression
from tidelog.testing.embedded import EmbeddedCluster

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def messages(count: int, size: int, *, first_ms: int = 1_000_000) -> list[Message]:
    """Return messages that compress little, one every 10 ms."""
    randomness = random.Random(size)
    return [
        Message(
            randomness.randbytes(size // 2) + bytes(size // 2) + b"%d" % number,
            key=b"key %d" % (number % 7),
            headers=(("number", b"%d" % number),),
            timestamp_ms=first_ms + 10 * number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_client_reads_remote_and_local_records(
    compression: str, topic: str, tiered: TieredTopics, client_factory: ClientFactory
) -> None:
    sent = messages(6000, 900)
    client_factory.produce(CLIENTS["tidelog"], topic, sent, compression=compression, idempotent=True)
    border = tiered.wait_until_tiered(topic)
    assert 0 == border.log_start < border.local_start < border.log_end == len(sent)
    for name in ("confluent", "aiokafka", "tidelog"):
        received = client_factory.consume(CLIENTS[name], topic, len(sent))
        assert [one.offset for one in received] == list(range(len(sent)))
        assert [(one.key, one.value, one.headers, one.timestamp_ms) for one in received] == [
            (one.key, one.value, one.headers, one.timestamp_ms) for one in sent
        ]


def test_remote_records_have_the_bytes_of_the_local_log(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    tiered.alter(topic, {"local.retention.bytes": "1000000000"})
    client_factory.produce(
        CLIENTS["confluent"], topic, messages(4000, 900), compression="lz4", idempotent=True
    )

    def whole_log(node: BrokerNode) -> bytes:
        segments = tiered.log(node, topic).segments
        return b"".join(segment.file.pread(segment.size_bytes, 0) for segment in segments)

    before = cluster.run(whole_log)
    tiered.alter(topic, {"local.retention.bytes": "1"})
    border = tiered.wait_until_tiered(topic)
    logs = [path.read_bytes() for path in tiered.objects(topic) if path.suffix == ".log"]
    in_tier = b"".join(logs)
    assert before.startswith(in_tier)
    *_, (_, last) = iterate_headers(in_tier)
    assert last.next_offset == border.local_start


@pytest.fixture(params=["confluent", "aiokafka", "tidelog"])
def client(request: pytest.FixtureRequest) -> ForeignClient:
    return CLIENTS[request.param]


def write_transactions(cluster: EmbeddedCluster, topic: str) -> tuple[list[bytes], list[bytes]]:
    """Write batches of three producers with both results; return all values and the committed ones."""
    writer, randomness = PartitionWriter(cluster, topic), random.Random(9)
    everything: list[bytes] = []
    fates: list[tuple[list[bytes], int]] = []
    open_since: dict[int, list[bytes]] = {}
    committed: set[bytes] = set()
    for number in range(400):
        values = [b"%d.%d " % (number, index) + os.urandom(2500) for index in range(4)]
        producer = randomness.choice([None, 1, 2, 3])
        everything += values
        if producer is None:
            committed.update(values)
        else:
            open_since.setdefault(producer, []).extend(values)
        writer.records(*values, producer_id=producer, compression=randomness.choice(list(Compression)))
        fates.append((values, number))
        if open_since and randomness.random() < 0.05:
            ended = randomness.choice(list(open_since))
            is_committed = randomness.random() < 0.5
            writer.end_transaction(ended, committed=is_committed)
            values_of_it = open_since.pop(ended)
            if is_committed:
                committed.update(values_of_it)
    for producer in open_since:
        writer.end_transaction(producer, committed=False)
    return everything, [value for value in everything if value in committed]


def test_read_committed_omits_aborted_transactions(
    client: ForeignClient,
    topic: str,
    tiered: TieredTopics,
    client_factory: ClientFactory,
    cluster: EmbeddedCluster,
) -> None:
    everything, committed = write_transactions(cluster, topic)
    border = tiered.wait_until_tiered(topic)
    assert border.local_start > 0
    assert len(everything) > len(committed) > 0
    received = client_factory.consume(client, topic, len(committed), isolation="read_committed")
    assert [one.value for one in received] == committed
    received = client_factory.consume(client, topic, len(everything))
    assert [one.value for one in received] == everything


def test_list_offsets_returns_log_start_local_log_start_and_remote_end(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory
) -> None:
    sent = messages(4000, 900)
    client_factory.produce(CLIENTS["confluent"], topic, sent, idempotent=True)
    border = tiered.wait_until_tiered(topic)
    assert tiered.offset(topic, -1) == len(sent)
    assert tiered.offset(topic, -2) == 0
    assert tiered.offset(topic, -4) == border.local_start
    assert tiered.offset(topic, -5) == border.local_start - 1
    assert tiered.offset(topic, -6) == border.local_start


def test_timestamps_are_found_in_remote_and_local_records(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory
) -> None:
    sent = messages(4000, 900)
    client_factory.produce(CLIENTS["confluent"], topic, sent, compression="zstd", idempotent=True)
    border = tiered.wait_until_tiered(topic)
    for offset in (0, 1, 777, border.local_start - 1, border.local_start, len(sent) - 1):
        timestamp = sent[offset].timestamp_ms
        assert timestamp is not None
        assert tiered.offset(topic, timestamp) == offset
        assert tiered.offset(topic, timestamp - 5) == offset


def test_deleting_a_topic_removes_only_its_objects(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory
) -> None:
    other = f"other-{topic}"
    tiered.create(other)
    for name in (topic, other):
        client_factory.produce(CLIENTS["confluent"], name, messages(3000, 900), idempotent=True)
        tiered.wait_until_tiered(name)
    kept = tiered.objects(f"/{other}-")
    assert kept and tiered.objects(f"/{topic}-")
    tiered.delete(topic)
    wait_until(lambda: not tiered.objects(f"/{topic}-"))
    assert tiered.objects(f"/{other}-") == kept


def test_a_recreated_topic_keeps_only_its_own_objects(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory
) -> None:
    client_factory.produce(CLIENTS["confluent"], topic, messages(3000, 900), idempotent=True)
    tiered.wait_until_tiered(topic)
    before = set(tiered.objects(f"/{topic}-"))
    tiered.delete(topic)
    tiered.create(topic)
    sent = messages(3000, 901)
    client_factory.produce(CLIENTS["confluent"], topic, sent, idempotent=True)
    tiered.wait_until_tiered(topic)
    wait_until(lambda: not before & set(tiered.objects(f"/{topic}-")))
    received = client_factory.consume(CLIENTS["confluent"], topic, len(sent))
    assert [one.value for one in received] == [one.value for one in sent]


def test_produce_continues_while_the_object_store_is_unavailable(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    first, second = messages(3000, 900), messages(3000, 901)
    client_factory.produce(CLIENTS["confluent"], topic, first, idempotent=True)
    before = tiered.wait_until_tiered(topic)
    away = cluster.tier_dir.with_name("tier-away")
    cluster.tier_dir.rename(away)
    cluster.tier_dir.write_bytes(b"no directory")
    try:
        client_factory.produce(CLIENTS["confluent"], topic, second, idempotent=True)
        during = tiered.border(topic)
        assert (during.local_start, during.highest_remote) == (before.local_start, before.highest_remote)
        assert during.log_end == len(first) + len(second)
        tail = client_factory.consume(CLIENTS["confluent"], topic, 100, {0: before.local_start})
        assert [one.value for one in tail[:100]] == [
            one.value for one in (first + second)[before.local_start :][:100]
        ]
        errors = cluster.run(lambda node: _copy_errors(node, topic))
        wait_until(lambda: cluster.run(lambda node: _copy_errors(node, topic)) > errors)
        assert tiered.border(topic).local_start == before.local_start
    finally:
        cluster.tier_dir.unlink()
        away.rename(cluster.tier_dir)
    after = tiered.wait_until_tiered(topic)
    assert after.local_start > before.local_start
    received = client_factory.consume(CLIENTS["confluent"], topic, len(first) + len(second))
    assert [one.value for one in received] == [one.value for one in first + second]


def _copy_errors(node: BrokerNode, topic: str) -> int:
    remote = node.remote
    assert remote is not None
    return remote.manager.figures.topic(topic).copy_errors
