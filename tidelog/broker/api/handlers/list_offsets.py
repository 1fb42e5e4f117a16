"""ListOffsets (key 2): where a partition begins, ends, or reaches a point in time.

Versions 1-11. Only the leader answers, except to a replica id of -2, which is for debugging. A leader
whose high watermark has not reached the start of its epoch does not know the end that clients may see:
OFFSET_NOT_AVAILABLE, which is LEADER_NOT_AVAILABLE before version 5 (KIP-207).

The timestamps below zero are questions of their own; a version that does not
know one yet is answered UNSUPPORTED_VERSION. Nothing found is offset -1, not an error. The first
record at or after a point in time may be in remote storage: then the answer waits for that.

Source: KIP-79, KIP-734 (-3), KIP-405 (-4), KIP-1005 (-5), KIP-1023 (-6), KIP-1075 (waiting).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TypeAlias

from tidelog.broker.fetching.delayed_remote_list_offsets import DelayedRemoteListOffsets, RemoteLookUp
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.steps import Steps
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.reading.requests import TimestampSearch
from tidelog.storage.log.partition_log import PartitionLog, RecordPlace

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

LOWEST_VERSION_OF = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
# Older answers have no field for it (KIP-320).
LEADER_EPOCH_SINCE = 4
OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
DEBUGGING_REPLICA = -2
NOT_FOUND = RecordPlace(-1, -1, -1)


class ListOffsetsHandler:
    """Answers from the local log; points in time that may lie in remote storage are looked up there."""

    def __init__(self, replicas: ReplicaManager, slices: Slices, remote: RemoteAccess | None = None) -> None:
        """`remote` is there on a node with remote storage."""
        self._replicas = replicas
        self._slices = slices
        self._remote = remote

    def handle(
        self, context: RequestContext, request: ListOffsetsRequest
    ) -> Steps[ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]]:
        """Answer every partition by itself; one named twice is INVALID_REQUEST."""
        version = context.header.api_version
        named = yield from _named(request)
        outcomes: dict[TopicPartition, _Outcome] = {}
        try:
            for topic in request.topics:
                for asked in topic.partitions:
                    name = TopicPartition(topic.name, asked.partition_index)
                    if named[name] > 1:
                        outcomes[name] = ErrorCode.INVALID_REQUEST
                    else:
                        outcomes[name] = yield from self._look_up(name, asked, request, version)
                    yield None
        except BaseException:
            for each in outcomes.values():
                if isinstance(each, RemoteLookUp):
                    each.outcome.cancel()
            raise
        look_ups = {name: each for name, each in outcomes.items() if isinstance(each, RemoteLookUp)}
        if not look_ups:
            return (yield from _response(outcomes, version))
        return self._wait(request, outcomes, look_ups, version)

    def _wait(
        self,
        request: ListOffsetsRequest,
        outcomes: dict[TopicPartition, _Outcome],
        look_ups: dict[TopicPartition, RemoteLookUp],
        version: int,
    ) -> asyncio.Future[ListOffsetsResponse]:
        remote = self._remote
        assert remote is not None
        answer: asyncio.Future[ListOffsetsResponse] = asyncio.get_running_loop().create_future()

        def respond(response: ListOffsetsResponse) -> None:
            if not answer.done():
                answer.set_result(response)

        def on_answer() -> None:
            self._slices.start(_response(outcomes, version), respond, answer.set_exception)

        timeout_ms = request.timeout_ms if request.timeout_ms > 0 else remote.list_offsets_timeout_ms()
        operation = DelayedRemoteListOffsets(timeout_ms, list(look_ups.values()), on_answer)
        if not remote.list_offsets.try_complete_else_watch(operation, look_ups):
            # The client may be gone before that: nothing is left of the operation then.
            answer.add_done_callback(lambda _: operation.cancel())
        return answer

    def _look_up(
        self, name: TopicPartition, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> Steps[_Outcome]:
        try:
            if asked.timestamp < 0 and version < LOWEST_VERSION_OF.get(asked.timestamp, version + 1):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} in version {version}"
                )
            partition = self._partition(name, asked, request)
            log = partition.log
            if (
                asked.timestamp >= 0
                and self._remote is not None
                and log.remote_log_enabled
                and log.log_start_offset < log.log_end_offset
            ):
                return self._look_up_remotely(self._remote, partition, asked.timestamp, request)
            found = yield from look_up(partition, asked.timestamp, _isolation(request))
            if self._partition(name, asked, request) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} was re-created")
            return _checked(partition, asked.timestamp, found, request)
        except KafkaError as error:
            return error.code

    def _partition(
        self, name: TopicPartition, asked: ListOffsetsPartition, request: ListOffsetsRequest
    ) -> Partition:
        """The partition, if this node may answer for it; KafkaError otherwise."""
        partition = self._replicas.partition(name)
        if request.replica_id == DEBUGGING_REPLICA:
            partition.check_leader_epoch(asked.current_leader_epoch)
        else:
            partition.require_leader(asked.current_leader_epoch)
        return partition

    def _look_up_remotely(
        self, remote: RemoteAccess, partition: Partition, timestamp: int, request: ListOffsetsRequest
    ) -> RemoteLookUp:
        """Ask remote storage first, as it has the older records; the local log when it finds nothing."""
        log, name = partition.log, partition.topic_partition
        isolation = _isolation(request)

        async def search() -> RecordPlace | None:
            while True:
                local_log_start_offset = log.local_log_start_offset
                found = await remote.reader.offset_for_timestamp(
                    TimestampSearch(
                        topic_id_partition=TopicIdPartition(partition.topic_id, name.topic, name.partition),
                        timestamp=timestamp,
                        starting_offset=log.log_start_offset,
                        log=log,
                    )
                )
                # What was local when the search began may be only remote when it ends, what was remote gone.
                if found is not None and found.offset >= log.log_start_offset:
                    return found
                if found is None and log.local_log_start_offset == local_log_start_offset:
                    return await self._slices.complete(log.offset_for_timestamp(timestamp))

        def check() -> None:
            if self._replicas.partition(name) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} was made anew")

        def finish(found: RecordPlace | None) -> RecordPlace:
            if found is None or found.offset >= partition.upper_bound(isolation):
                found = NOT_FOUND
            return _checked(partition, timestamp, found, request)

        return RemoteLookUp(asyncio.ensure_future(search()), check, finish)


_Outcome: TypeAlias = RecordPlace | ErrorCode | RemoteLookUp


def _checked(
    partition: Partition, timestamp: int, found: RecordPlace, request: ListOffsetsRequest
) -> RecordPlace:
    if request.replica_id == CONSUMER and _needs_high_watermark(timestamp, found):
        partition.check_high_watermark_known()
    return found


def _named(request: ListOffsetsRequest) -> Steps[Counter[tuple[str, int]]]:
    """How often each partition is named."""
    named: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for asked in topic.partitions:
            named[topic.name, asked.partition_index] += 1
            yield None
    return named


def _response(outcomes: dict[TopicPartition, _Outcome], version: int) -> Steps[ListOffsetsResponse]:
    topics: defaultdict[str, list[ListOffsetsPartitionResponse]] = defaultdict(list)
    for (topic, index), outcome in outcomes.items():
        topics[topic].append(_answer(index, outcome, version))
        yield None
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(name=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        )
    )


def _answer(index: int, outcome: _Outcome, version: int) -> ListOffsetsPartitionResponse:
    found = outcome.result if isinstance(outcome, RemoteLookUp) else outcome
    if isinstance(found, ErrorCode):
        if found is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
            found = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=index, error_code=found)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_SINCE else -1,
    )


def look_up(partition: Partition, timestamp: int, isolation: FetchIsolation) -> Steps[RecordPlace]:
    """Return the offset that `timestamp`, real or special, stands for in the local log; -1 for none."""
    log = partition.log
    if timestamp == LATEST:
        latest_epoch = log.leader_epochs.latest_epoch
        return RecordPlace(-1, partition.upper_bound(isolation), _or_none(latest_epoch))
    if timestamp == EARLIEST:
        return _at(log, log.log_start_offset)
    if timestamp == EARLIEST_LOCAL:
        return _at(log, log.local_log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _border(log, timestamp) if log.remote_log_enabled else NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        found = yield from log.max_timestamp_offset()
    else:
        found = yield from log.offset_for_timestamp(timestamp, partition.upper_bound(isolation))
    if found is None or found.offset >= partition.upper_bound(isolation):
        return NOT_FOUND
    return found


def _border(log: PartitionLog, timestamp: int) -> RecordPlace:
    """Up to where the log is in remote storage (inclusive), or from where on it is not.

    The latter is not known of a log that has no local start to answer with, until the node knows what
    remote storage holds.
    """
    highest = log.highest_offset_in_remote_storage
    if timestamp == LATEST_TIERED:
        return _at(log, highest)
    if highest >= 0:
        return _at(log, max(highest + 1, log.log_start_offset))
    if log.local_log_start_offset == log.log_start_offset:
        return _at(log, log.log_start_offset)
    return NOT_FOUND


def _at(log: PartitionLog, offset: Offset) -> RecordPlace:
    return RecordPlace(-1, offset, _or_none(log.leader_epochs.epoch_for_offset(offset)))


def _needs_high_watermark(timestamp: int, found: RecordPlace) -> bool:
    """Whether the answer says where what clients can see ends."""
    if timestamp == LATEST:
        return True
    return found is NOT_FOUND and timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)


def _or_none(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _isolation(request: ListOffsetsRequest) -> FetchIsolation:
    """Only clients are kept from what is not committed yet: a follower and the debugging replica see all."""
    if request.replica_id != CONSUMER:
        return FetchIsolation.LOG_END
    return FetchIsolation.READ_COMMITTED if request.isolation_level else FetchIsolation.READ_UNCOMMITTED
