"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords of tiered logs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.logs.partition_logs import append, batch
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NODE, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.tier.scripted_reader import FakeTier, move_to_remote
from tidelog.broker.api.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.api.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.fetching.read_checks import diverging_epoch
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.steps import run_steps
from tidelog.storage.log.partition_log import PartitionLog, RecordPlace

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


def context(version: int = 11) -> RequestContext:
    header = RequestHeader(2, version, 1, "test")
    return RequestContext(header, "PLAINTEXT", "test:1", "User:ANONYMOUS", NOW_MS, ConnectedClient())


class Border:
    """A partition with epochs 0, 1, 2 at offsets 0, 2, 4 and timestamps 0, 10, ... 50; 0 to 3 only remote."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock.monotonic_ms)
        self.tier = FakeTier(self.timers)
        self.replicas = Replicas()
        self.replicas.register(1, 2)
        self.topic_id = self.replicas.create(
            "t", 2, remote_storage_enable="true", local_retention_bytes="0", retention_ms="-1"
        )
        self.replicas.create("u", 1)
        self.handler = ListOffsetsHandler(
            self.replicas.manager, Slices(self.replicas.clock), ALLOW_EVERYTHING, self.tier.access
        )
        for first in range(0, 6, 2):
            append(self.log, "a", "b", leader_epoch=first // 2, timestamps=[first * 10, first * 10 + 10])
            self.log.roll(NOW_MS)
        move_to_remote(self.log, 4, NOW_MS)

    @property
    def partition(self) -> Partition:
        return self.replicas.manager.partition(TopicPartition("t", 0))

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    def send_request(
        self, *timestamps: int, topic: str = "t", version: int = 11, timeout_ms: int = 0, replica_id: int = -1
    ) -> ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]:
        requested = tuple(
            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index, timestamp in enumerate(timestamps)
        )
        request = ListOffsetsRequest(
            replica_id=replica_id,
            timeout_ms=timeout_ms,
            topics=(ListOffsetsTopic(name=topic, partitions=requested),),
        )
        return run_steps(self.handler.handle(context(version), request))

    def request_offset(self, timestamp: int, topic: str = "t") -> tuple[int, int, int]:
        response = self.send_request(timestamp, topic=topic)
        assert isinstance(response, ListOffsetsResponse)
        partition = response.topics[0].partitions[0]
        assert partition.error_code == 0
        return partition.timestamp, partition.offset, partition.leader_epoch


def partitions_of(response: object) -> tuple[ListOffsetsPartitionResponse, ...]:
    assert isinstance(response, asyncio.Future)
    return cast(ListOffsetsResponse, response.result()).topics[0].partitions


def test_each_special_timestamp_of_a_tiered_log_has_its_result() -> None:
    border = Border()
    assert border.request_offset(EARLIEST) == (-1, 0, 0)
    assert border.request_offset(EARLIEST_LOCAL) == (-1, 4, 2)
    assert border.request_offset(LATEST) == (-1, 6, 2)
    assert border.request_offset(LATEST_TIERED) == (-1, 3, 1)
    assert border.request_offset(EARLIEST_PENDING_UPLOAD) == (-1, 4, 2)
    assert border.request_offset(MAX_TIMESTAMP) == (50, 5, 2)
    border.log.advance_log_start_offset_from_remote(3)
    assert border.request_offset(EARLIEST) == (-1, 3, 1)
    border.log.advance_log_start_offset(5)
    assert border.request_offset(EARLIEST_LOCAL) == (-1, 5, 2)
    assert border.request_offset(EARLIEST_PENDING_UPLOAD) == (-1, 5, 2), "never below the log start"


def test_kip_1023_the_earliest_pending_upload_offset_is_unknown_before_the_remote_end() -> None:
    border = Border()
    border.log.remote_border.on_remote_log_deleted()
    assert border.request_offset(LATEST_TIERED) == (-1, -1, -1)
    assert border.request_offset(EARLIEST_PENDING_UPLOAD) == (-1, -1, -1)
    border.log.advance_log_start_offset(4)
    assert border.request_offset(EARLIEST_PENDING_UPLOAD) == (-1, 4, 2), "all there is is local"


def test_an_untiered_topic_has_no_tiered_and_no_pending_offset() -> None:
    border = Border()
    append(border.replicas.manager.partition(TopicPartition("u", 0)).log, "a", leader_epoch=0)
    assert border.request_offset(LATEST_TIERED, "u") == (-1, -1, -1)
    assert border.request_offset(EARLIEST_PENDING_UPLOAD, "u") == (-1, -1, -1)
    assert border.request_offset(EARLIEST_LOCAL, "u") == border.request_offset(EARLIEST, "u") == (-1, 0, 0)
    assert border.request_offset(0, "u") == (NOW_MS, 0, 0), "returned at once, from the local log"


async def test_kip_1075_a_remote_timestamp_lookup_does_not_delay_others() -> None:
    border = Border()
    response = border.send_request(5)
    ((search, outcome),) = (
        border.tier.reader.searches if border.tier.reader.searches else await search_log(border)
    )
    assert (search.timestamp, search.starting_offset, search.topic_id_partition.partition) == (5, 0, 0)
    assert not cast("asyncio.Future[ListOffsetsResponse]", response).done()
    outcome.set_result(RecordPlace(10, 1, 0))
    await loop_iterations(5)
    (partition,) = partitions_of(response)
    assert (partition.error_code, partition.timestamp, partition.offset, partition.leader_epoch) == (
        0,
        10,
        1,
        0,
    )


async def search_log(border: Border) -> list:
    await loop_iterations(5)
    return border.tier.reader.searches


async def test_a_timestamp_missing_in_remote_storage_is_looked_up_locally() -> None:
    border = Border()
    response = border.send_request(45)
    ((_, outcome),) = await search_log(border)
    outcome.set_result(None)
    await loop_iterations(5)
    (partition,) = partitions_of(response)
    assert (partition.timestamp, partition.offset, partition.leader_epoch) == (50, 5, 2)


async def test_a_segment_tiered_during_the_lookup_is_searched_again() -> None:
    border = Border()
    response = border.send_request(45)
    ((_, first),) = await search_log(border)
    move_to_remote(border.log, 6, NOW_MS)
    first.set_result(None)
    await loop_iterations(5)
    (_, (search, second)) = border.tier.reader.searches
    assert search.timestamp == 45
    second.set_result(RecordPlace(50, 5, 2))
    await loop_iterations(5)
    (partition,) = partitions_of(response)
    assert partition.offset == 5


async def test_a_record_deleted_during_the_lookup_is_not_returned() -> None:
    """A consumer that reads from there would be out of range, and would be reset by auto.offset.reset."""
    border = Border()
    response = border.send_request(5)
    ((_, first),) = await search_log(border)
    border.log.advance_log_start_offset_from_remote(2)
    first.set_result(RecordPlace(10, 1, 0))
    await loop_iterations(5)
    (_, (search, second)) = border.tier.reader.searches
    assert (search.timestamp, search.starting_offset) == (5, 2)
    second.set_result(RecordPlace(20, 2, 1))
    await loop_iterations(5)
    (partition,) = partitions_of(response)
    assert (partition.timestamp, partition.offset, partition.leader_epoch) == (20, 2, 1)


async def test_no_record_at_or_after_the_timestamp_is_offset_minus_one() -> None:
    border = Border()
    response = border.send_request(51)
    ((_, outcome),) = await search_log(border)
    outcome.set_result(None)
    await loop_iterations(5)
    (partition,) = partitions_of(response)
    assert (partition.error_code, partition.timestamp, partition.offset, partition.leader_epoch) == (
        0,
        -1,
        -1,
        -1,
    )


@pytest.mark.parametrize(("timeout_ms", "waited_ms"), [(700, 700), (0, 30_000)])
async def test_a_lookup_beyond_its_timeout_is_timed_out_and_cancelled(
    timeout_ms: int, waited_ms: int
) -> None:
    border = Border()
    append(border.replicas.manager.partition(TopicPartition("t", 1)).log, "x", timestamps=7)
    response = border.send_request(5, LATEST, timeout_ms=timeout_ms)
    ((_, outcome),) = await search_log(border)
    border.clock.now_ms += waited_ms - 1
    border.timers.advance()
    assert not cast("asyncio.Future[ListOffsetsResponse]", response).done()
    border.clock.now_ms += 1
    border.timers.advance()
    await loop_iterations(5)
    slow, fast = partitions_of(response)
    assert (slow.error_code, slow.offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert (fast.error_code, fast.offset) == (0, 1)
    assert outcome.cancelled()


async def test_a_lookup_of_a_disconnected_client_is_cancelled() -> None:
    border = Border()
    response = border.send_request(5, timeout_ms=2**31 - 1)
    ((_, outcome),) = await search_log(border)
    cast("asyncio.Future[ListOffsetsResponse]", response).cancel()
    await loop_iterations(5)
    assert outcome.cancelled()
    assert (border.tier.list_offsets.delayed_count, len(border.timers)) == (0, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, "not yet"), ErrorCode.REPLICA_NOT_AVAILABLE),
        (RuntimeError("the store is gone"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_an_error_of_a_lookup_affects_only_its_partition(error: Exception, code: ErrorCode) -> None:
    border = Border()
    response = border.send_request(5)
    ((_, outcome),) = await search_log(border)
    outcome.set_exception(error)
    await loop_iterations(5)
    assert partitions_of(response)[0].error_code == code


async def test_two_partitions_are_searched_concurrently() -> None:
    border = Border()
    append(border.replicas.manager.partition(TopicPartition("t", 1)).log, "x", timestamps=7)
    response = border.send_request(5, 5)
    (_, first), (_, second) = await search_log(border)
    second.set_result(None)
    await loop_iterations(5)
    assert not cast("asyncio.Future[ListOffsetsResponse]", response).done()
    first.set_result(RecordPlace(10, 1, 0))
    await loop_iterations(5)
    assert [partition.offset for partition in partitions_of(response)] == [1, 0]


async def test_a_partition_removed_during_the_lookup_gets_its_result_at_once() -> None:
    border = Border()
    response = border.send_request(5)
    await loop_iterations(5)
    border.replicas.replay(
        PartitionChangeRecord(partition_id=0, topic_id=border.topic_id, replicas=(2,), isr=(2,), leader=2)
    )
    border.tier.list_offsets.check_and_complete(TopicPartition("t", 0))
    code = partitions_of(response)[0].error_code
    assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_an_empty_tiered_log_is_not_searched() -> None:
    border = Border()
    response = border.send_request(LATEST, 5)
    assert isinstance(response, ListOffsetsResponse)
    assert response.topics[0].partitions[1].offset == -1


def test_the_end_of_a_remote_epoch_is_returned() -> None:
    border = Border()
    handler = OffsetForLeaderEpochHandler(border.replicas.manager, ALLOW_EVERYTHING)
    for epoch, expected in ((0, (0, 2)), (1, (1, 4)), (2, (2, 6)), (3, (-1, -1))):
        requested = OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            topics=(OffsetForLeaderTopic(topic="t", partitions=(requested,)),)
        )
        partition = run_steps(handler.handle(context(4), request)).topics[0].partitions[0]
        assert (partition.error_code, partition.leader_epoch, partition.end_offset) == (0, *expected)


def test_a_fetch_of_remote_records_diverges_only_where_its_epoch_does() -> None:
    partition = Border().partition
    assert diverging_epoch(partition, 0, 1) is None
    assert diverging_epoch(partition, 0, 3) == (0, 2)
    assert diverging_epoch(partition, 1, 3) is None
    partition.log.advance_log_start_offset_from_remote(3)
    with pytest.raises(KafkaError) as refused:
        diverging_epoch(partition, 1, 2)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def delete_before(border: Border, offset: int) -> tuple[int, int]:
    handler = DeleteRecordsHandler(
        border.replicas.manager,
        Purgatory("DeleteRecords", border.timers),
        Slices(border.replicas.clock),
        authorizer=ALLOW_EVERYTHING,
    )
    requested = DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = (DeleteRecordsTopic(name="t", partitions=(requested,)),)
    response = run_steps(handler.handle(context(2), DeleteRecordsRequest(timeout_ms=100, topics=topics)))
    assert isinstance(response, DeleteRecordsResponse)
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.low_watermark


def test_delete_records_of_remote_records_moves_only_the_log_start() -> None:
    border = Border()
    assert delete_before(border, 1) == (0, 1)
    assert (border.log.log_start_offset, border.log.local_log_start_offset) == (1, 4)
    assert delete_before(border, 5) == (0, 5)
    assert (border.log.log_start_offset, border.log.local_log_start_offset) == (5, 5)
    assert delete_before(border, -1) == (0, 6)
    border.log.append_as_leader(batch(["uncommitted"]), 2, NOW_MS)
    assert delete_before(border, 7)[0] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_new_epoch_makes_leader_and_follower_query_the_remote_end_again() -> None:
    border = Border()
    assert border.log.remote_border.is_remote_log_known
    placed = border.replicas.image.topics_by_name["t"].partitions[0]
    border.partition.make_leader(placed)
    assert border.log.remote_border.is_remote_log_known, "the leader epoch is unchanged"
    next_epoch = replace(
        placed, leader_epoch=placed.leader_epoch + 1, partition_epoch=placed.partition_epoch + 1
    )
    border.partition.make_leader(next_epoch)
    assert not border.log.remote_border.is_remote_log_known
    assert border.log.highest_offset_in_remote_storage == 3
    border.log.remote_border.raise_highest_offset(3)
    border.partition.make_follower(
        replace(placed, leader=NODE + 1, leader_epoch=next_epoch.leader_epoch + 1, partition_epoch=9)
    )
    assert not border.log.remote_border.is_remote_log_known
