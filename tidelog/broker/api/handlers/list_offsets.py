"""ListOffsets (key 2): the offset where a partition starts, ends or reaches a timestamp.

Versions 1-11. Only the leader responds, except to a replica id of -2, which is for debugging. A leader whose
high watermark has not reached the start of its epoch does not know the end that clients may see:
OFFSET_NOT_AVAILABLE, which is LEADER_NOT_AVAILABLE before version 5 (KIP-207).

Each timestamp below zero has a special meaning; a version that does not have it yet gets
UNSUPPORTED_VERSION. If no record is found, the offset is -1, which is not an error. The first record at or
after a timestamp may be in remote storage: then the response waits for it.

Source: KIP-79, KIP-734 (-3), KIP-405 (-4), KIP-1005 (-5), KIP-1023 (-6), KIP-1075 (waiting).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Final, TypeAlias

from tidelog.broker.fetching.delayed_remote_list_offsets import DelayedRemoteListOffsets, RemoteLookUp
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.fetching.timestamp_search import first_record_from
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
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
from tidelog.storage.log.partition_log import PartitionLog, RecordPlace

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

LOWEST_VERSION_OF: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
LEADER_EPOCH_SINCE: Final = 4
"""Older responses have no leader epoch (KIP-320)."""
OFFSET_NOT_AVAILABLE_SINCE: Final = 5
CONSUMER: Final = -1
DEBUGGING_REPLICA: Final = -2
NOT_FOUND: Final = RecordPlace(-1, -1, -1)

_Outcome: TypeAlias = RecordPlace | ErrorCode | RemoteLookUp


class ListOffsetsHandler:
    """Searches the local log, and remote storage for timestamps that may be there."""

    def __init__(
        self,
        replicas: ReplicaManager,
        slices: Slices,
        authorizer: Authorizer,
        remote: RemoteAccess | None = None,
    ) -> None:
        """Use `remote` on a node with remote storage."""
        self._authorizer = authorizer
        self._replicas = replicas
        self._slices = slices
        self._remote = remote

    def handle(
        self, context: RequestContext, request: ListOffsetsRequest
    ) -> Steps[ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]]:
        """Return the result of every partition; one that is requested twice gets INVALID_REQUEST."""
        version = context.header.api_version
        counts = yield from _request_counts(request)
        outcomes: dict[TopicPartition, _Outcome] = {}
        describable = yield from accessible_names(
            self._authorizer,
            context,
            (AclOperation.DESCRIBE, AclResourceType.TOPIC),
            (topic.name for topic in request.topics),
        )
        try:
            for topic in request.topics:
                for requested in topic.partitions:
                    name = TopicPartition(topic.name, requested.partition_index)
                    if topic.name not in describable:
                        outcomes[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    elif counts[name] > 1:
                        outcomes[name] = ErrorCode.INVALID_REQUEST
                    else:
                        outcomes[name] = yield from self._look_up(name, requested, request, version)
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
        """Return a future of the response, which is sent when the remote look-ups have ended."""
        remote = self._remote
        assert remote is not None
        result: asyncio.Future[ListOffsetsResponse] = asyncio.get_running_loop().create_future()

        def respond(response: ListOffsetsResponse) -> None:
            if not result.done():
                result.set_result(response)

        def on_completed() -> None:
            self._slices.start(_response(outcomes, version), respond, result.set_exception)

        timeout_ms = request.timeout_ms if request.timeout_ms > 0 else remote.list_offsets_timeout_ms()
        operation = DelayedRemoteListOffsets(timeout_ms, list(look_ups.values()), on_completed)
        if not remote.list_offsets.try_complete_else_watch(operation, look_ups):
            # If the client disconnects before, the operation is removed.
            result.add_done_callback(lambda _: operation.cancel())
        return result

    def _look_up(
        self, name: TopicPartition, requested: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> Steps[_Outcome]:
        """Return the place for a timestamp, its error code, or the started look-up in remote storage."""
        try:
            if requested.timestamp < 0 and version < LOWEST_VERSION_OF.get(requested.timestamp, version + 1):
                text = f"timestamp {requested.timestamp} is not supported in version {version}"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            partition = self._partition(name, requested, request)
            log = partition.log
            if (
                requested.timestamp >= 0
                and self._remote is not None
                and log.remote_log_enabled
                and log.log_start_offset < log.log_end_offset
            ):
                return self._look_up_remotely(self._remote, partition, requested.timestamp, request)
            place = yield from look_up(partition, requested.timestamp, _isolation(request))
            if self._partition(name, requested, request) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} was re-created")
            return _check_high_watermark(partition, requested.timestamp, place, request)
        except KafkaError as error:
            return error.code

    def _partition(
        self, name: TopicPartition, requested: ListOffsetsPartition, request: ListOffsetsRequest
    ) -> Partition:
        """Return the partition. Raise KafkaError if this node may not respond for it."""
        partition = self._replicas.partition(name)
        if request.replica_id == DEBUGGING_REPLICA:
            partition.check_leader_epoch(requested.current_leader_epoch)
        else:
            partition.require_leader(requested.current_leader_epoch)
        return partition

    def _look_up_remotely(
        self, remote: RemoteAccess, partition: Partition, timestamp: int, request: ListOffsetsRequest
    ) -> RemoteLookUp:
        """Search remote storage, which has the older records, and then the local log."""
        name, isolation = partition.topic_partition, _isolation(request)

        def check() -> None:
            if self._replicas.partition(name) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} was re-created")

        def finish(place: RecordPlace | None) -> RecordPlace:
            if place is None or place.offset >= partition.upper_bound(isolation):
                place = NOT_FOUND
            return _check_high_watermark(partition, timestamp, place, request)

        search = first_record_from(partition, timestamp, self._slices, remote.reader)
        return RemoteLookUp(asyncio.ensure_future(search), check, finish)


def _check_high_watermark(
    partition: Partition, timestamp: int, place: RecordPlace, request: ListOffsetsRequest
) -> RecordPlace:
    """Return `place`; raise OFFSET_NOT_AVAILABLE if it depends on a high watermark that is not known yet."""
    if request.replica_id == CONSUMER and _needs_high_watermark(timestamp, place):
        partition.check_high_watermark_known()
    return place


def _request_counts(request: ListOffsetsRequest) -> Steps[Counter[tuple[str, int]]]:
    """Return how often each partition is requested."""
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for requested in topic.partitions:
            counts[topic.name, requested.partition_index] += 1
            yield None
    return counts


def _response(outcomes: dict[TopicPartition, _Outcome], version: int) -> Steps[ListOffsetsResponse]:
    topics: defaultdict[str, list[ListOffsetsPartitionResponse]] = defaultdict(list)
    for (topic, index), outcome in outcomes.items():
        topics[topic].append(_partition_response(index, outcome, version))
        yield None
    responses = []
    for topic, partitions in topics.items():
        responses.append(ListOffsetsTopicResponse(name=topic, partitions=tuple(partitions)))
        yield None
    return ListOffsetsResponse(topics=tuple(responses))


def _partition_response(index: int, outcome: _Outcome, version: int) -> ListOffsetsPartitionResponse:
    result = outcome.result if isinstance(outcome, RemoteLookUp) else outcome
    if isinstance(result, ErrorCode):
        if result is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
            result = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=index, error_code=result)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=result.timestamp,
        offset=result.offset,
        leader_epoch=result.leader_epoch if version >= LEADER_EPOCH_SINCE else -1,
    )


def look_up(partition: Partition, timestamp: int, isolation: FetchIsolation) -> Steps[RecordPlace]:
    """Return the offset in the local log for a timestamp or a special value; -1 if there is none."""
    log = partition.log
    if timestamp == LATEST:
        latest_epoch = log.leader_epochs.latest_epoch
        return RecordPlace(-1, partition.upper_bound(isolation), _epoch_or_none(latest_epoch))
    if timestamp == EARLIEST:
        return _place_at(log, log.log_start_offset)
    if timestamp == EARLIEST_LOCAL:
        return _place_at(log, log.local_log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _tier_border(log, timestamp) if log.remote_log_enabled else NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        place = yield from log.timestamps.newest_record()
    else:
        place = yield from log.timestamps.first_record_from(timestamp, partition.upper_bound(isolation))
    if place is None or place.offset >= partition.upper_bound(isolation):
        return NOT_FOUND
    return place


def _tier_border(log: PartitionLog, timestamp: int) -> RecordPlace:
    """Return the last offset in remote storage, or the first that is not there.

    The latter is unknown if the local log has no offset to return, until the node knows the contents of
    remote storage.
    """
    highest = log.highest_offset_in_remote_storage
    if timestamp == LATEST_TIERED:
        return _place_at(log, highest)
    if highest >= 0:
        return _place_at(log, max(highest + 1, log.log_start_offset))
    if log.local_log_start_offset == log.log_start_offset:
        return _place_at(log, log.log_start_offset)
    return NOT_FOUND


def _place_at(log: PartitionLog, offset: Offset) -> RecordPlace:
    return RecordPlace(-1, offset, _epoch_or_none(log.leader_epochs.epoch_for_offset(offset)))


def _needs_high_watermark(timestamp: int, place: RecordPlace) -> bool:
    """Return whether the result depends on the end that clients may see."""
    if timestamp == LATEST:
        return True
    return place is NOT_FOUND and timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)


def _epoch_or_none(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _isolation(request: ListOffsetsRequest) -> FetchIsolation:
    """Return what the requester may see: only clients do not see uncommitted records."""
    if request.replica_id != CONSUMER:
        return FetchIsolation.LOG_END
    return FetchIsolation.READ_COMMITTED if request.isolation_level else FetchIsolation.READ_UNCOMMITTED
