"""Fetchers with a leader's real handlers: replication, truncation, failures, restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_pair import LEADER, ReplicaPair
from tests.support.waiting import eventually
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.replication import fetcher, follower_log
from tidelog.broker.replication.fetcher_metrics import report_fetchers
from tidelog.cluster.replication.follower_state import Append, RestartAt, Truncate
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.partition_log import PartitionLog

T0 = TopicPartition("t", 0)


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    pair = ReplicaPair()
    yield pair
    await pair.fetchers.close()


def leader_change(pair: ReplicaPair, leader: int, epoch: int, partition: int = 0) -> PartitionChangeRecord:
    """Make `leader` the leader; the epoch is incremented."""
    topic = pair.leader.image.topics_by_name["t"]
    assert topic.partitions[partition].leader_epoch == epoch - 1
    return PartitionChangeRecord(partition_id=partition, topic_id=topic.id, leader=leader)


async def test_a_follower_copies_existing_and_new_records(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.append(T0, "a", "b")
    pair.begin()
    await eventually(lambda: pair.are_equal(T0))
    pair.append(T0, "c")
    await eventually(lambda: pair.are_equal(T0))
    assert pair.leader.manager.partition(T0).log.high_watermark == 3, "the ISR has it"
    assert T0 in pair.advanced_partitions, "fetches from the follower are notified"


async def test_with_flush_messages_a_follower_acknowledges_flushed_records_only(
    pair: ReplicaPair,
) -> None:
    """Records acknowledged with acks=all are then on the disks of all in-sync replicas, as in Kafka."""
    pair.create("t", flush_messages="2")
    pair.flushes = []
    pair.begin()
    pair.append(T0, "a")
    await eventually(lambda: pair.are_equal(T0))
    assert pair.flushes == [], "one record may wait for the next"
    pair.append(T0, "b")
    await eventually(lambda: pair.logs(T0)[1].log_end_offset == 2)
    await eventually(lambda: bool(pair.flushes))
    await pair.leader.flusher.finish()
    await loop_iterations(20)
    assert pair.logs(T0)[0].high_watermark == 1
    pair.flushes[0].set_result(None)
    await eventually(lambda: pair.logs(T0)[0].high_watermark == 2)


async def test_a_disk_failure_during_a_followers_flush_does_not_end_its_fetcher(pair: ReplicaPair) -> None:
    pair.create("t", flush_messages="1")
    pair.create("u")
    pair.flushes = []
    pair.begin()
    pair.append(T0, "a")
    await eventually(lambda: bool(pair.flushes))
    pair.flushes[0].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    other = TopicPartition("u", 0)
    pair.append(other, "a")
    await eventually(lambda: pair.logs(other)[1].log_end_offset == 1)


async def test_nothing_is_fetched_before_the_registration(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.append(T0, "a")
    assert pair.connections == []
    pair.begin()
    await eventually(lambda: pair.are_equal(T0))


async def test_many_partitions_share_one_connection_and_one_session(pair: ReplicaPair) -> None:
    pair.create("t", 20)
    pair.begin()
    for index in range(20):
        pair.append(TopicPartition("t", index), "x" * 100)
    await eventually(lambda: all(pair.are_equal(TopicPartition("t", index)) for index in range(20)))
    (connection,) = pair.connections
    fetches = [each for each in connection.requests if isinstance(each, FetchRequest)]
    assert [each.session_epoch for each in fetches[:2]] == [0, 1]


async def test_partitions_are_spread_over_the_fetchers_of_a_leader() -> None:
    pair = ReplicaPair(fetchers=3)
    pair.create("t", 9)
    pair.begin()
    assert [len(fetcher.core.partitions) for fetcher in pair.fetchers.fetchers] == [3, 3, 3]
    one = ConfigRecord(resource_type=4, resource_name="", name="num.replica.fetchers", value="1")
    pair.follower.replay(one)
    assert [len(fetcher.core.partitions) for fetcher in pair.fetchers.fetchers] == [9]
    pair.append(TopicPartition("t", 8), "a")
    await eventually(lambda: pair.are_equal(TopicPartition("t", 8)))
    await pair.fetchers.close()


@pytest.mark.parametrize("version", [18, 13, 12, 11])
async def test_a_diverging_follower_truncates_to_the_end_of_the_common_epoch(version: int) -> None:
    pair = ReplicaPair(version)
    pair.create("t")
    leader, follower = pair.logs(T0)
    for log in (leader, follower):
        append(log, "common", leader_epoch=0)
    append(leader, "of epoch 2", leader_epoch=2)
    append(follower, "of epoch 1", leader_epoch=1)
    append(follower, "of epoch 1 too", leader_epoch=1)
    pair.begin()
    pair.append(T0, "of epoch 3")
    await eventually(lambda: pair.are_equal(T0))
    await pair.fetchers.close()


async def test_heartbeats_are_sent_during_the_truncation_of_many_logs(
    pair: ReplicaPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each truncation syncs: all in one turn of the loop would take longer than the session of a broker."""
    turn = 0
    cut_in: list[int] = []

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(next_turn)

    def perform(action: Append | Truncate | RestartAt, log: PartitionLog, now_ms: int) -> bool:
        if isinstance(action, Truncate):
            cut_in.append(turn)
        return follower_log.apply_action(action, log, now_ms)

    monkeypatch.setattr(fetcher, "apply_action", perform)
    pair.create("t", 5)
    for index in range(5):
        for log in pair.logs(TopicPartition("t", index)):
            append(log, "common", leader_epoch=0)
        append(pair.logs(TopicPartition("t", index))[1], "of epoch 1", leader_epoch=1)
    next_turn()
    pair.begin()
    await eventually(lambda: len(cut_in) == 5)
    assert len(set(cut_in)) == 5


async def test_a_follower_below_the_leaders_log_start_restarts_there(pair: ReplicaPair) -> None:
    pair.create("t")
    leader, follower = pair.logs(T0)
    append(follower, "old", leader_epoch=0)
    for index in range(10):
        append(leader, f"value {index}", leader_epoch=0)
    leader.advance_log_start_offset(6)
    pair.begin()
    await eventually(lambda: follower.log_end_offset == 10)
    assert follower.log_start_offset == 6 and pair.are_equal(T0)


async def test_a_leader_whose_log_starts_within_a_batch_is_followed_from_the_batch(pair: ReplicaPair) -> None:
    pair.create("t")
    leader, follower = pair.logs(T0)
    append(leader, "a", "b", "c", "d", leader_epoch=0)
    leader.advance_log_start_offset(2)
    pair.begin()
    await eventually(lambda: pair.are_equal(T0))
    assert follower.log_start_offset == 2


async def test_a_broken_connection_is_opened_again(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.begin()
    pair.append(T0, "a")
    await eventually(lambda: pair.are_equal(T0))
    pair.unreachable = 3
    pair.connections[0].break_off()
    pair.append(T0, "b")
    await eventually(lambda: pair.follower.clock.now_ms > 0 and len(pair.connections) == 2)
    await pair.pass_ms(100)
    await eventually(lambda: pair.are_equal(T0))


async def test_a_new_leader_stops_fetching_and_discards_the_response_in_flight(
    pair: ReplicaPair,
) -> None:
    pair.create("t")
    pair.begin()
    pair.append(T0, "a")
    await eventually(lambda: pair.are_equal(T0))
    pair.follower.replay(leader_change(pair, 2, 4))
    pair.append(T0, "by the leader of the past")
    assert list(pair.fetchers.fetchers) == []
    for _ in range(5):
        await pair.pass_ms(10)
    assert pair.logs(T0)[1].log_end_offset == 1


async def test_a_deleted_topic_is_no_longer_fetched(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.begin()
    pair.replay(RemoveTopicRecord(topic_id=pair.leader.image.topics_by_name["t"].id))
    assert list(pair.fetchers.fetchers) == []


async def test_a_stopped_fetcher_follows_no_later_leader(pair: ReplicaPair) -> None:
    """Otherwise records would be appended to closed logs, after the marker of a clean shutdown."""
    pair.create("t")
    pair.begin()
    await eventually(lambda: pair.connections)
    await pair.fetchers.close()
    pair.create("u")
    pair.replay(leader_change(pair, LEADER, 4))
    assert list(pair.fetchers.fetchers) == []


async def test_without_a_leader_nothing_is_fetched(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.begin()
    pair.replay(leader_change(pair, -1, 4))
    assert list(pair.fetchers.fetchers) == []
    pair.replay(leader_change(pair, LEADER, 5))
    pair.append(T0, "a")
    await eventually(lambda: pair.are_equal(T0))


async def test_a_follower_with_older_metadata_continues_in_the_new_epoch(
    pair: ReplicaPair,
) -> None:
    pair.create("t")
    pair.begin()
    pair.append(T0, "a")
    await eventually(lambda: pair.are_equal(T0))
    change = replace(leader_change(pair, LEADER, 4), leader=LEADER)
    pair.leader.replay(change)
    await eventually(lambda: T0 in pair.fetchers.failed_partitions)
    pair.append(T0, "b")
    pair.follower.replay(change)
    await eventually(lambda: pair.are_equal(T0))
    assert pair.fetchers.failed_partitions == {}


async def test_partitions_whose_leader_is_in_a_newer_epoch_are_logged_in_one_line(
    pair: ReplicaPair, caplog: pytest.LogCaptureFixture
) -> None:
    """All partitions of a node that stops get new leaders at the same time."""
    caplog.set_level(logging.INFO)
    pair.create("t", 5)
    pair.begin()
    await eventually(lambda: pair.fetchers.fetchers)
    pair.leader.replay(*(leader_change(pair, LEADER, 4, partition=number) for number in range(5)))
    await eventually(lambda: len(pair.fetchers.failed_partitions) == 5)
    lines = [each.getMessage() for each in caplog.records if "newer epoch" in each.getMessage()]
    assert lines == [
        "Fetcher 0 from broker 1 has failed for 5 partitions (t-0, t-1, t-2, ...): "
        "the leader is in a newer epoch; not fetched until the metadata changes"
    ]


async def test_a_leader_with_older_metadata_is_retried_soon(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.begin()
    change = leader_change(pair, LEADER, 4)
    pair.follower.replay(change)
    pair.append(T0, "a")
    await eventually(lambda: pair.fetchers.fetchers and not pair.are_equal(T0))
    pair.leader.replay(change)
    pair.append(T0, "b")

    async def advance() -> bool:
        await pair.pass_ms(5)
        return pair.are_equal(T0)

    for _ in range(200):
        if await advance():
            break
    await eventually(lambda: pair.are_equal(T0))


async def test_a_failed_log_is_abandoned_and_others_continue(
    pair: ReplicaPair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.create("t", 2)
    pair.begin()
    broken, whole = T0, TopicPartition("t", 1)
    log = pair.logs(broken)[1]
    log.failures.fail(StorageFailure(log.directory, "fsync", "Input/output error"))
    for each in (broken, whole):
        pair.append(each, "a")
    await eventually(lambda: broken in pair.fetchers.failed_partitions and pair.are_equal(whole))
    assert "has failed for 1 partition (t-0)" in caplog.text


async def test_a_follower_continues_after_a_full_disk(pair: ReplicaPair) -> None:
    """Without retries, it would stay out of the ISR until the next election or restart."""
    pair.create("t")
    pair.begin()
    pair.append(T0, "a")
    await eventually(lambda: pair.are_equal(T0))
    pair.follower.fs.free_bytes = 10
    pair.append(T0, "b")
    await loop_iterations(50)
    assert pair.logs(T0)[1].log_end_offset == 1
    pair.follower.fs.free_bytes = None

    def is_copied() -> bool:
        pair.follower.clock.now_ms += 20
        return pair.are_equal(T0)

    await eventually(is_copied)


async def test_an_unexpected_error_in_one_partition_does_not_affect_others(
    pair: ReplicaPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.create("t", 2)
    broken, whole = T0, TopicPartition("t", 1)

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(pair.logs(broken)[1], "append_as_follower", fail)
    pair.begin()
    for each in (broken, whole):
        pair.append(each, "a")
    await eventually(lambda: broken in pair.fetchers.failed_partitions and pair.are_equal(whole))


async def test_throttled_bytes_are_counted_and_delay_the_partition(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.quota.rate = 100
    pair.quota.set_topic("t", None)
    leader, follower = pair.logs(T0)
    for _ in range(3):
        append(leader, "x" * 900_000, leader_epoch=3)
    pair.begin()
    await eventually(lambda: follower.log_end_offset > 0)
    assert pair.quota.is_exceeded(pair.follower.clock.monotonic_ms())
    fetched = follower.log_end_offset
    assert fetched < 3, "one response holds 1 MiB of a partition, at least one batch"
    await pair.pass_ms(10_000_000)
    await eventually(lambda: follower.log_end_offset > fetched)


async def test_any_response_of_the_leader_keeps_the_fetcher_running(pair: ReplicaPair) -> None:
    pair.create("t")
    pair.begin()
    await eventually(lambda: pair.connections)
    pair.connections[0].failure = KafkaError(ErrorCode.CORRUPT_MESSAGE, "not a response")
    await eventually(lambda: len(pair.connections) > 1)
    pair.append(T0, "a")
    await pair.pass_ms(100)
    await eventually(lambda: pair.are_equal(T0))
    assert pair.fetchers.bytes_in > 0 and NOW_MS > 0


async def test_the_lag_of_followers_is_reported(pair: ReplicaPair) -> None:
    metrics = BrokerMetrics()
    report_fetchers(metrics, pair.fetchers)
    pair.create("t")
    pair.append(T0, "a", "b")
    pair.begin()
    await eventually(lambda: pair.are_equal(T0))
    text = Exposition(metrics).text()[0].decode()
    assert "kafka_server_replicafetchermanager_maxlag 0" in text
    assert "kafka_server_replicafetchermanager_failedpartitionscount 0" in text
    assert "kafka_server_fetcherlagmetrics_consumerlag{" in text
    assert "kafka_server_brokertopicmetrics_replicationbytesin" in text
