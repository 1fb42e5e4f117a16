"""ListOffsets (key 2): where a partition begins, ends, or reaches a point in time.

Versions 1-11. Only the leader answers, except to a replica id of -2, which is for debugging. A leader
whose high watermark has not reached the start of its epoch does not know the end that clients may see:
OFFSET_NOT_AVAILABLE, which is LEADER_NOT_AVAILABLE before version 5 (KIP-207).

The timestamps below zero are questions of their own; a version that does not
know one yet is answered UNSUPPORTED_VERSION. Nothing found is offset -1, not an error.

Source: KIP-79, KIP-734 (-3), KIP-405 (-4), KIP-1005 (-5), KIP-1023 (-6).
"""

from __future__ import annotations

from collections import Counter

from broker.partition import FetchIsolation, Partition
from broker.replica_manager import ReplicaManager
from broker.request_context import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import TopicPartition
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from storage.log import RecordPlace

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
    """Answers from the local log alone; a partition without remote storage has nothing tiered."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Answer every partition by itself; one named twice is INVALID_REQUEST."""
        named = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
        version = context.header.api_version
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                if named[topic.name, asked.partition_index] > 1:
                    answers.append(_refusal(asked, ErrorCode.INVALID_REQUEST))
                else:
                    answers.append(self._answer(topic.name, asked, request, version))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
        return ListOffsetsResponse(topics=tuple(topics))

    def _answer(
        self, topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
        try:
            if asked.timestamp < 0 and version < LOWEST_VERSION_OF.get(asked.timestamp, version + 1):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} in version {version}"
                )
            partition = self._replicas.partition(TopicPartition(topic, asked.partition_index))
            if request.replica_id == DEBUGGING_REPLICA:
                partition.check_leader_epoch(asked.current_leader_epoch)
            else:
                partition.led(asked.current_leader_epoch)
            found = look_up(partition, asked.timestamp, _isolation(request))
            if request.replica_id == CONSUMER and _needs_high_watermark(asked.timestamp, found):
                partition.check_high_watermark_known()
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
                return _refusal(asked, ErrorCode.LEADER_NOT_AVAILABLE)
            return _refusal(asked, error.code)
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_SINCE else -1,
        )


def look_up(partition: Partition, timestamp: int, isolation: FetchIsolation) -> RecordPlace:
    """The offset that `timestamp`, real or special, stands for; offset -1 when there is none."""
    log = partition.log
    if timestamp == LATEST:
        latest_epoch = log.leader_epochs.latest_epoch
        return RecordPlace(-1, partition.upper_bound(isolation), _or_none(latest_epoch))
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.leader_epochs.epoch_for_offset(log.log_start_offset)
        return RecordPlace(-1, log.log_start_offset, _or_none(epoch))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    else:
        found = log.offset_for_timestamp(timestamp, partition.upper_bound(isolation))
    if found is None or found.offset >= partition.upper_bound(isolation):
        return NOT_FOUND
    return found


def _needs_high_watermark(timestamp: int, found: RecordPlace) -> bool:
    """Whether the answer says where what clients can see ends."""
    if timestamp == LATEST:
        return True
    return found is NOT_FOUND and timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)


def _or_none(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _isolation(request: ListOffsetsRequest) -> FetchIsolation:
    if request.replica_id >= 0:
        return FetchIsolation.LOG_END
    return FetchIsolation.READ_COMMITTED if request.isolation_level else FetchIsolation.READ_UNCOMMITTED


def _refusal(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
