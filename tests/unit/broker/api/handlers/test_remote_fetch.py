"""Fetches of clients from remote storage, which the test scripts."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.logs.partition_logs import append
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NODE, FakeRequest, no_waiting_requests
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.tier.tiered_fetches import TieredBroker, partitions_of, remote_read
from tidelog.base.bounded_pool import PoolFull
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.remote.reading.requests import RemoteRead
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.read import ReadResult
from tidelog.storage.segment.txn_index import AbortedTransaction

SMALL = 90
"""Fewer bytes than any batch has."""


async def test_a_fetch_below_the_local_log_start_reads_remote_storage() -> None:
    broker = TieredBroker()
    request = broker.fetch(1)
    ((read_request, outcome),) = broker.tier.reader.reads
    assert (
        read_request.offset,
        read_request.upper_bound,
        read_request.at_least_one,
        read_request.with_aborted,
    ) == (1, 6, True, False)
    assert read_request.topic_id_partition == (broker.topic_id, "t", 0)
    assert not request.responses
    remote_outcome = remote_read("0", "1")
    outcome.set_result(remote_outcome)
    await loop_iterations(5)
    (partition,) = partitions_of(request)
    assert (partition.error_code, partition.records) == (0, remote_outcome.records)
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (6, 6, 0)
    assert broker.traffic.bytes_out == len(remote_outcome.records)


async def test_kafka_14915_several_partitions_are_read_from_remote_storage_in_one_fetch() -> None:
    broker = TieredBroker()
    request = broker.fetch(0, 2, 4)
    reads = broker.tier.reader.reads
    assert [read_request.topic_id_partition.partition for read_request, _ in reads] == [0, 1]
    first, second = remote_read("0", "1"), remote_read("2", "3", first_offset=2)
    reads[1][1].set_result(second)
    await loop_iterations(5)
    assert not request.responses
    reads[0][1].set_result(first)
    await loop_iterations(5)
    partitions = partitions_of(request)
    assert [partition.records for partition in partitions[:2]] == [first.records, second.records]
    assert partitions[2].records, "a local partition of the same fetch is read as well"


async def test_local_partitions_of_a_remote_fetch_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = TieredBroker()
    read = PartitionLog.read
    offsets_read: list[tuple[int, int]] = []

    def count_call(log: PartitionLog, offset: int, *arguments: Any, **options: Any) -> ReadResult:
        offsets_read.append((log.topic_partition.partition, offset))
        return read(log, offset, *arguments, **options)

    monkeypatch.setattr(PartitionLog, "read", count_call)
    request = broker.fetch(0, 0, 4)
    append(broker.partition(2).log, "new")
    for _, outcome in broker.tier.reader.reads:
        outcome.set_result(remote_read("0", "1"))
    await loop_iterations(5)
    assert offsets_read == [(2, 4)], "offsets in remote storage are not read from the log"
    partitions = partitions_of(request)
    assert [len(bytes(partition.records or b"")) > 0 for partition in partitions] == [True, True, True]
    assert partitions[2].high_watermark == 6, (
        "the result is the one of the moment of the request, as in Kafka"
    )
    assert partitions_of(broker.fetch(6, 6, 6))[2].records, (
        "the next fetch returns the records that were appended meanwhile"
    )


async def test_an_unknown_topic_does_not_end_remote_reads_of_other_partitions() -> None:
    broker = TieredBroker()
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
    topics = tuple(
        FetchTopic(topic_id=topic_id, partitions=(wanted,)) for topic_id in (broker.topic_id, UUID(int=99))
    )
    request = FakeRequest(FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=topics), 13)
    broker.fetch_handler.handle(request)
    remote_outcome = remote_read("0", "1")
    broker.tier.reader.reads[0][1].set_result(remote_outcome)
    await loop_iterations(5)
    known_topic, unknown_topic = cast(FetchResponse, request.response).responses
    assert known_topic.partitions[0].records == remote_outcome.records
    assert unknown_topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (RuntimeError("the store is gone"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (PoolFull("too many"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_an_error_of_remote_storage_affects_only_its_partition(
    error: Exception, code: ErrorCode
) -> None:
    broker = TieredBroker()
    request = broker.fetch(0, 0, 4)
    (_, failing), (_, working) = broker.tier.reader.reads
    failing.set_exception(error)
    working.set_result(remote_read("0"))
    await loop_iterations(5)
    partitions = partitions_of(request)
    assert [partition.error_code for partition in partitions] == [code, 0, 0]
    assert not partitions[0].records
    assert partitions[1].records
    assert partitions[2].records
    assert broker.traffic.failed_fetch_requests == (code is ErrorCode.UNKNOWN_SERVER_ERROR)


async def test_kip_1018_a_remote_read_that_times_out_is_empty_and_cancelled() -> None:
    broker = TieredBroker(max_wait_ms=300)
    request = broker.fetch(0, 0, max_wait_ms=10_000)
    (_, slow), (_, fast) = broker.tier.reader.reads
    fast.set_result(remote_read("0"))
    await loop_iterations(5)
    broker.pass_ms(299)
    assert not request.responses
    broker.pass_ms(1)
    await loop_iterations(5)
    partitions = partitions_of(request)
    assert [(partition.error_code, bool(partition.records)) for partition in partitions] == [
        (0, False),
        (0, True),
    ]
    assert partitions[0].high_watermark == 6
    assert slow.cancelled()
    assert broker.tier.fetches.expired_count == 1


async def test_a_remote_read_is_awaited_with_max_wait_ms_0() -> None:
    broker = TieredBroker()
    request = broker.fetch(0, max_wait_ms=0)
    assert not request.responses
    broker.tier.reader.reads[0][1].set_result(remote_read("0"))
    await loop_iterations(5)
    assert partitions_of(request)[0].records


async def test_a_disconnected_client_cancels_the_remote_read() -> None:
    broker = TieredBroker()
    request = broker.fetch(0)
    assert request.on_abandoned is not None
    request.on_abandoned(request)
    await loop_iterations(5)
    assert broker.tier.reader.reads[0][1].cancelled()
    assert not request.responses
    assert broker.tier.fetches.delayed_count == 0


async def test_a_remote_read_that_ends_after_its_timeout_is_ignored() -> None:
    broker = TieredBroker(max_wait_ms=10)
    request = broker.fetch(0)
    broker.pass_ms(10)
    await loop_iterations(5)
    assert len(request.responses) == 1


async def test_kip_956_a_throttled_remote_partition_is_empty_and_local_ones_have_records() -> None:
    broker = TieredBroker()
    broker.tier.reader.throttle_time_ms = 40
    request = broker.fetch(0, 0, 4)
    assert not broker.tier.reader.reads
    partitions = partitions_of(request)
    assert [(partition.error_code, bool(partition.records)) for partition in partitions] == [
        (0, False),
        (0, False),
        (0, True),
    ]


async def test_a_fetch_of_only_throttled_partitions_waits_for_local_records() -> None:
    broker = TieredBroker()
    broker.tier.reader.throttle_time_ms = 40
    waiting = broker.fetch(0, 6, max_wait_ms=1_000)
    assert not waiting.responses
    append(broker.partition(1).log, "new")
    broker.fetches.check_and_complete(TopicPartition("t", 1))
    assert [bool(response.records) for response in partitions_of(waiting)] == [False, True]
    alone = broker.fetch(0, max_wait_ms=1_000)
    assert not alone.responses
    broker.pass_ms(1_000)
    assert not partitions_of(alone)[0].records


async def test_a_fetch_that_waited_starts_no_remote_read_at_its_end() -> None:
    """The request has waited long enough; the next fetch of the client returns the data."""
    broker = TieredBroker()
    broker.tier.reader.throttle_time_ms = 40
    waiting = broker.fetch(0, max_wait_ms=1_000)
    broker.tier.reader.throttle_time_ms = 0
    broker.pass_ms(1_000)
    assert not broker.tier.reader.reads
    assert [(response.error_code, bool(response.records)) for response in partitions_of(waiting)] == [
        (0, False)
    ]


async def test_kip_392_a_follower_reads_from_remote_storage_for_clients() -> None:
    broker = TieredBroker()
    broker.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=broker.topic_id, leader=2))
    assert broker.partition().leader is None
    request = broker.fetch(1, leader_epoch=1)
    ((read_request, outcome),) = broker.tier.reader.reads
    assert read_request.upper_bound == broker.partition().log.high_watermark
    outcome.set_result(remote_read("0", "1"))
    await loop_iterations(5)
    assert partitions_of(request)[0].records


async def test_a_leader_change_during_the_remote_read_is_returned() -> None:
    broker = TieredBroker()
    request = broker.fetch(1)
    broker.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=broker.topic_id, leader=2))
    broker.tier.reader.reads[0][1].set_result(remote_read("0", "1"))
    await loop_iterations(5)
    (partition,) = partitions_of(request)
    assert (partition.error_code, bool(partition.records)) == (ErrorCode.FENCED_LEADER_EPOCH, False)


async def test_a_follower_gets_offset_moved_to_tiered_storage_with_the_log_offsets() -> None:
    broker = TieredBroker()
    request = broker.fetch(1, replica_id=2)
    (partition,) = partitions_of(request)
    assert partition.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (6, -1, 0)
    assert not partition.records
    assert not broker.tier.reader.reads


async def test_a_follower_below_the_log_start_is_out_of_range() -> None:
    broker = TieredBroker()
    broker.partition().log.advance_log_start_offset(2)
    assert partitions_of(broker.fetch(1, replica_id=2))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert partitions_of(broker.fetch(1))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    code = partitions_of(broker.fetch(2, replica_id=2))[0].error_code
    assert code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


async def test_a_follower_with_an_epoch_that_diverges_below_the_local_log_start_gets_the_offset() -> None:
    broker = TieredBroker()
    log = broker.partition().log
    log.epoch_file.note(7, log.log_end_offset)
    append(log, "in epoch 7", leader_epoch=7)
    (partition,) = partitions_of(broker.fetch(1, replica_id=2, last_fetched_epoch=3))
    assert partition.error_code == 0
    assert partition.diverging_epoch is not None
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 6)


async def test_read_committed_gets_the_aborted_transactions_of_remote_segments() -> None:
    broker = TieredBroker()
    request = broker.fetch(0, isolation_level=1)
    ((read_request, outcome),) = broker.tier.reader.reads
    assert read_request.with_aborted
    assert read_request.upper_bound == broker.partition().log.last_stable_offset
    aborted = [AbortedTransaction(5, 0, 1, 2)]
    outcome.set_result(RemoteRead(b"x" * 70, 2, aborted))
    await loop_iterations(5)
    (partition,) = partitions_of(request)
    assert partition.aborted_transactions is not None
    assert [(each.producer_id, each.first_offset) for each in partition.aborted_transactions] == [(5, 0)]


async def test_a_partition_removed_from_the_node_ends_the_wait() -> None:
    broker = TieredBroker()
    broker.replicas.leadership.waiting_requests = no_waiting_requests(broker.replicas.clock)
    request = broker.fetch(0, 0)
    broker.replicas.replay(
        PartitionChangeRecord(partition_id=0, topic_id=broker.topic_id, replicas=(2,), isr=(2,), leader=2)
    )
    broker.tier.fetches.check_and_complete(TopicPartition("t", 0))
    codes = [response.error_code for response in partitions_of(request)]
    assert codes[0] in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert codes[1] == 0


async def test_the_log_start_in_the_response_is_the_current_one() -> None:
    broker = TieredBroker()
    request = broker.fetch(3)
    broker.partition().log.advance_log_start_offset_from_remote(2)
    broker.tier.reader.reads[0][1].set_result(remote_read("2", "3", first_offset=2))
    await loop_iterations(5)
    assert partitions_of(request)[0].log_start_offset == 2


async def test_a_session_returns_remote_records_and_serves_other_partitions_first_next_time() -> None:
    broker = TieredBroker()
    request = broker.fetch(0, 6, session_epoch=0)
    broker.tier.reader.reads[0][1].set_result(remote_read("0"))
    await loop_iterations(5)
    assert len(partitions_of(request)) == 2
    assert cast(FetchResponse, request.response).session_id == 1


async def test_without_remote_storage_on_this_node_the_offset_is_out_of_range() -> None:
    broker = TieredBroker()
    broker.fetch_handler._options = FetchOptions(
        max_bytes=50_000_000, slices=Slices(broker.clock), authorizer=ALLOW_EVERYTHING
    )
    assert partitions_of(broker.fetch(1))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation_level", [0, 1])
async def test_kafka_15388_a_fetch_in_a_gap_at_the_remote_end_continues_locally(
    isolation_level: int,
) -> None:
    """The topic was compacted before it was tiered: its last remote offsets have no records."""
    broker = TieredBroker()
    request = broker.fetch(3, isolation_level=isolation_level)
    ((_, outcome),) = broker.tier.reader.reads
    outcome.set_result(RemoteRead(b"", 4, [] if isolation_level else None))
    await loop_iterations(5)
    (partition,) = partitions_of(request)
    local = broker.partition().log.read(4, 100_000).records
    assert local is not None
    assert (partition.error_code, partition.records) == (0, local.read())


async def test_records_of_a_deleted_topic_are_not_returned_for_a_recreated_one() -> None:
    broker = TieredBroker()
    request = broker.fetch(1)
    ((_, outcome),) = broker.tier.reader.reads
    broker.replicas.replay(RemoveTopicRecord(topic_id=broker.topic_id))
    broker.replicas.create("t", 3, isr=(1, 2), leader=NODE)
    outcome.set_result(remote_read("0", "1"))
    await loop_iterations(5)
    (partition,) = partitions_of(request)
    assert (partition.error_code, bool(partition.records)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
