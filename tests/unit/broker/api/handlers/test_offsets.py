"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and descriptions of logs, with real partitions."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.logs.partition_logs import batch, end_marker
from tests.support.messages.request_contexts import immediate
from tests.support.replicas.replica_manager import Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.api.handlers.describe_log_dirs import DescribeLogDirsHandler
from tidelog.broker.api.handlers.describe_producers import DescribeProducersHandler
from tidelog.broker.api.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.steps import run_steps

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


def context(version: int) -> RequestContext:
    header = RequestHeader(2, version, 1, "test")
    return RequestContext(header, "PLAINTEXT", "test:1", "User:ANONYMOUS", NOW_MS, ConnectedClient())


@pytest.fixture
def replicas() -> Replicas:
    replicas = Replicas()
    replicas.create("t", 2, leader_epoch=3)
    partition = replicas.manager.partition(TopicPartition("t", 0))
    for values, timestamps in ((["a", "b"], [10, 30]), (["c"], 20)):
        partition.append(batch(values, timestamps=timestamps), 1, NOW_MS)
    return replicas


def list_offset(
    replicas: Replicas,
    timestamp: int,
    *,
    version: int = 11,
    partition: int = 0,
    isolation: int = 0,
    replica_id: int = -1,
) -> ListOffsetsPartitionResponse:
    requested = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=(ListOffsetsTopic(name="t", partitions=(requested,)),),
    )
    handler = ListOffsetsHandler(replicas.manager, Slices(replicas.clock), ALLOW_EVERYTHING)
    return immediate(run_steps(handler.handle(context(version), request))).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (-1, 3, 3)),
        (EARLIEST, (-1, 0, 3)),
        (EARLIEST_LOCAL, (-1, 0, 3)),
        (MAX_TIMESTAMP, (30, 1, 3)),
        (LATEST_TIERED, (-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, (-1, -1, -1)),
        (0, (10, 0, 3)),
        (11, (30, 1, 3)),
        (30, (30, 1, 3)),
        (31, (-1, -1, -1)),
    ],
)
def test_every_special_timestamp_has_its_result(
    replicas: Replicas, timestamp: int, expected: tuple[int, int, int]
) -> None:
    offset = list_offset(replicas, timestamp)
    assert offset.error_code == 0
    assert (offset.timestamp, offset.offset, offset.leader_epoch) == expected


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11), (-7, 99)],
)
def test_a_special_timestamp_is_refused_before_its_version(
    replicas: Replicas, timestamp: int, first_version: int
) -> None:
    before = list_offset(replicas, timestamp, version=min(first_version - 1, 11))
    assert before.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_response_for_very_many_topics_is_built_in_steps(replicas: Replicas) -> None:
    """40,000 topics that were built in one step blocked the event loop for 28 ms."""
    many = 1_000
    requested = (ListOffsetsPartition(partition_index=0, timestamp=LATEST),)
    topics = tuple(ListOffsetsTopic(name=f"unknown-{number}", partitions=requested) for number in range(many))
    handler = ListOffsetsHandler(replicas.manager, Slices(replicas.clock), ALLOW_EVERYTHING)
    steps = handler.handle(context(11), ListOffsetsRequest(topics=topics))
    # They are counted, looked up, sorted by topic, and built.
    assert sum(1 for _ in steps) >= 4 * many


def test_the_end_for_read_committed_is_the_last_stable_offset(replicas: Replicas) -> None:
    partition = replicas.manager.partition(TopicPartition("t", 0))
    open_batch = batch(["x"], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    partition.append(open_batch, 1, NOW_MS)
    assert list_offset(replicas, LATEST, isolation=1).offset == 3
    assert list_offset(replicas, LATEST, isolation=0).offset == 4
    from tidelog.storage.append_origin import AppendOrigin

    partition.append(end_marker(5), 1, NOW_MS, AppendOrigin.COORDINATOR)
    assert list_offset(replicas, LATEST, isolation=1).offset == 5


@pytest.mark.parametrize("replica_id", [-2, 7])
def test_the_debugging_replica_and_followers_get_the_log_end(replicas: Replicas, replica_id: int) -> None:
    partition = replicas.manager.partition(TopicPartition("t", 0))
    open_batch = batch(["x"], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    partition.append(open_batch, 1, NOW_MS)
    assert list_offset(replicas, LATEST, isolation=1, replica_id=replica_id).offset == 4


def test_an_empty_partition_starts_and_ends_at_0(replicas: Replicas) -> None:
    assert list_offset(replicas, EARLIEST, partition=1).offset == 0
    assert list_offset(replicas, LATEST, partition=1).offset == 0
    assert list_offset(replicas, MAX_TIMESTAMP, partition=1).offset == -1


def test_a_duplicate_partition_is_an_invalid_request(replicas: Replicas) -> None:
    requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(requested, requested)),)
    )
    handler = ListOffsetsHandler(replicas.manager, Slices(replicas.clock), ALLOW_EVERYTHING)
    partitions = immediate(run_steps(handler.handle(context(5), request))).topics[0].partitions
    assert [partition.error_code for partition in partitions] == [ErrorCode.INVALID_REQUEST]


def end_of_epoch(replicas: Replicas, epoch: int, current: int = -1, partition: int = 0) -> EpochEndOffset:
    requested = OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(requested,)),))
    return (
        run_steps(OffsetForLeaderEpochHandler(replicas.manager, ALLOW_EVERYTHING).handle(context(4), request))
        .topics[0]
        .partitions[0]
    )


def test_the_end_of_an_epoch_is_returned_and_minus_one_for_an_unknown_one(replicas: Replicas) -> None:
    assert (end_of_epoch(replicas, 3).leader_epoch, end_of_epoch(replicas, 3).end_offset) == (3, 3)
    assert (end_of_epoch(replicas, 7).leader_epoch, end_of_epoch(replicas, 7).end_offset) == (-1, -1)
    assert end_of_epoch(replicas, 3, current=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    unknown_partition = end_of_epoch(replicas, 3, partition=8)
    assert unknown_partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete_before(replicas: Replicas, offset: int, topic: str = "t") -> tuple[int, int]:
    requested = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(requested,)),))
    clock = ManualClock()
    purgatory = Purgatory("DeleteRecords", Timers(clock.monotonic_ms))
    response = run_steps(
        DeleteRecordsHandler(replicas.manager, purgatory, Slices(clock), ALLOW_EVERYTHING).handle(
            context(2), request
        )
    )
    assert isinstance(response, DeleteRecordsResponse)
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.low_watermark


def test_delete_records_is_permanent(replicas: Replicas) -> None:
    assert delete_before(replicas, 2) == (0, 2)
    assert delete_before(replicas, 1) == (0, 2)
    assert list_offset(replicas, EARLIEST).offset == 2
    assert list_offset(replicas, 0).offset == 2


def test_minus_one_deletes_up_to_the_high_watermark(replicas: Replicas) -> None:
    assert delete_before(replicas, -1) == (0, 3)


def test_delete_records_beyond_the_high_watermark_is_out_of_range(replicas: Replicas) -> None:
    assert delete_before(replicas, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_before(replicas, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_records_of_compacted_and_internal_topics_cannot_be_deleted(replicas: Replicas) -> None:
    replicas.create("compacted", cleanup_policy="compact")
    replicas.create("__consumer_offsets")
    assert delete_before(replicas, 0, "compacted")[0] == ErrorCode.POLICY_VIOLATION
    assert delete_before(replicas, 0, "__consumer_offsets")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_log_dirs_list_all_or_the_requested_partitions(replicas: Replicas) -> None:
    handler = DescribeLogDirsHandler(replicas.logs, ALLOW_EVERYTHING)
    (everything,) = run_steps(handler.handle(context(4), DescribeLogDirsRequest(topics=None))).results
    sizes = {p.partition_index: p.partition_size for p in everything.topics[0].partitions}
    size = replicas.manager.partition(TopicPartition("t", 0)).log.size_bytes
    assert (everything.log_dir, sizes) == ("/data", {0: size, 1: 0})
    assert everything.total_bytes > 0
    requested = (DescribableLogDirTopic(topic="t", partitions=(1,)),)
    (one,) = run_steps(handler.handle(context(4), DescribeLogDirsRequest(topics=requested))).results
    assert [p.partition_index for p in one.topics[0].partitions] == [1]


def test_kip_1066_a_cordoned_log_dir_reports_it(replicas: Replicas) -> None:
    handler = DescribeLogDirsHandler(replicas.logs, ALLOW_EVERYTHING)
    assert not run_steps(handler.handle(context(5), DescribeLogDirsRequest())).results[0].is_cordoned
    replicas.logs.cordon(frozenset({"/data"}))
    assert run_steps(handler.handle(context(5), DescribeLogDirsRequest())).results[0].is_cordoned


def test_an_offline_log_dir_reports_it(replicas: Replicas) -> None:
    replicas.logs.directories.take_offline(replicas.logs.directories[0], "the disk is gone")
    (directory,) = run_steps(
        DescribeLogDirsHandler(replicas.logs, ALLOW_EVERYTHING).handle(context(4), DescribeLogDirsRequest())
    ).results
    assert directory.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_producers_are_described_with_their_open_transaction(replicas: Replicas) -> None:
    partition = replicas.manager.partition(TopicPartition("t", 1))
    first = batch(["x"], producer_id=5, producer_epoch=2, base_sequence=0, is_transactional=True)
    partition.append(first, 1, NOW_MS)
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(1, 7)),))
    described_partition, unknown_partition = (
        run_steps(DescribeProducersHandler(replicas.manager, ALLOW_EVERYTHING).handle(context(0), request))
        .topics[0]
        .partitions
    )
    (producer,) = described_partition.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 2, 0)
    assert producer.current_txn_start_offset == 0
    assert unknown_partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_of_a_duplicate_partition_are_described_once(replicas: Replicas) -> None:
    requested = (
        TopicRequest(name="t", partition_indexes=(1, 0, 1, 1)),
        TopicRequest(name="t", partition_indexes=(0,)),
    )
    response = run_steps(
        DescribeProducersHandler(replicas.manager, ALLOW_EVERYTHING).handle(
            context(0), DescribeProducersRequest(topics=requested)
        )
    )
    assert [[each.partition_index for each in topic.partitions] for topic in response.topics] == [[1, 0]]


def test_of_two_records_with_a_timestamp_the_first_is_found(replicas: Replicas) -> None:
    partition = replicas.manager.partition(TopicPartition("t", 1))
    partition.append(batch(["a", "b"], timestamps=50), 1, NOW_MS)
    assert list_offset(replicas, MAX_TIMESTAMP, partition=1).offset == 0
