"""Requests that a follower sends before it can fetch, for ends of epochs and bounds of the leader's log.

| state | request |
|---|---|
| TRUNCATING | the end of the last epoch of the follower's log (OffsetForLeaderEpoch) |
| RESETTING | the log's end, and if that is not below the follower's own, its start (ListOffsets) |
| BUILDING_REMOTE_LOG_AUX | ListOffsets and OffsetForLeaderEpoch, as in the steps of follower_aux |

Invariant: a response is used only for partitions whose leader epoch and query have not changed since the
request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tidelog.cluster.replication.aux_build import AuxStep
from tidelog.cluster.replication.follower_state import FollowedPartition, ReplicaState
from tidelog.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
EARLIEST_LOCAL_TIMESTAMP: Final = -4
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


class EpochEndQuery(NamedTuple):
    """Requests the end of this epoch, or of the largest epoch below it."""

    epoch: LeaderEpoch


class OffsetQuery(NamedTuple):
    """Requests the offset for this timestamp."""

    timestamp: int


Query: TypeAlias = EpochEndQuery | OffsetQuery
QueryType = TypeVar("QueryType", EpochEndQuery, OffsetQuery)

_TIMESTAMP_OF_STEP: Final = {
    AuxStep.LOG_START: EARLIEST_TIMESTAMP,
    AuxStep.PENDING_UPLOAD: EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    AuxStep.LOCAL_START: EARLIEST_LOCAL_TIMESTAMP,
}


def next_query(partition: FollowedPartition) -> Query | None:
    """Return the next request for a partition; None if it fetches or waits for the tier."""
    state = partition.state
    if state is ReplicaState.TRUNCATING:
        epoch = partition.log.leader_epochs.latest_epoch
        assert epoch is not None, f"{partition.topic_partition} has no leader epoch"
        return EpochEndQuery(epoch)
    if state is ReplicaState.RESETTING:
        return OffsetQuery(LATEST_TIMESTAMP if partition.leader_end_offset is None else EARLIEST_TIMESTAMP)
    build = partition.aux
    if build is None or build.waits_for_tier:
        return None
    if build.step is AuxStep.EPOCH_END:
        return EpochEndQuery(max(0, build.start_epoch - 1))
    if build.step is AuxStep.SEGMENT_EPOCH:
        assert build.segment is not None, build
        return EpochEndQuery(build.segment.segment_leader_epochs[-1][0])
    return OffsetQuery(_TIMESTAMP_OF_STEP[build.step])


class FollowerQueries:
    """The open queries of one fetcher, which has at most one pending request."""

    def __init__(self, replica_id: BrokerId, partitions: Mapping[TopicPartition, FollowedPartition]) -> None:
        self._replica_id = replica_id
        self._partitions = partitions
        self._open: dict[TopicPartition, None] = {}
        self._pending: dict[TopicPartition, tuple[LeaderEpoch, Query]] = {}

    def add(self, topic_partition: TopicPartition) -> None:
        """Add a partition with an open query."""
        self._open[topic_partition] = None

    def discard(self, topic_partition: TopicPartition) -> None:
        """Remove a partition that has no open query any more."""
        self._open.pop(topic_partition, None)

    def epoch_request(self, now_ms: int) -> OffsetForLeaderEpochRequest | None:
        """Return the request for ends of epochs; None if no partition needs one."""
        topics = self._take_ready(EpochEndQuery, now_ms)
        if not topics:
            return None
        return OffsetForLeaderEpochRequest(
            replica_id=self._replica_id,
            topics=tuple(
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=tuple(
                        OffsetForLeaderPartition(
                            partition=partition.topic_partition.partition,
                            current_leader_epoch=partition.leader_epoch,
                            leader_epoch=query.epoch,
                        )
                        for partition, query in queries
                    ),
                )
                for topic, queries in topics.items()
            ),
        )

    def epoch_results(
        self, response: OffsetForLeaderEpochResponse
    ) -> Iterator[tuple[FollowedPartition, EpochEndOffset]]:
        """Yield the results that are still valid, each with its partition."""
        for topic in response.topics:
            for result in topic.partitions:
                partition = self._pending_partition(TopicPartition(topic.topic, result.partition))
                if partition is not None:
                    yield partition, result

    def offsets_request(self, now_ms: int) -> ListOffsetsRequest | None:
        """Return the request for bounds of the leader's log; None if no partition needs one."""
        topics = self._take_ready(OffsetQuery, now_ms)
        if not topics:
            return None
        return ListOffsetsRequest(
            replica_id=self._replica_id,
            topics=tuple(
                ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        ListOffsetsPartition(
                            partition_index=partition.topic_partition.partition,
                            current_leader_epoch=partition.leader_epoch,
                            timestamp=query.timestamp,
                        )
                        for partition, query in queries
                    ),
                )
                for topic, queries in topics.items()
            ),
        )

    def offset_results(
        self, response: ListOffsetsResponse
    ) -> Iterator[tuple[FollowedPartition, ListOffsetsPartitionResponse]]:
        """Yield the results that are still valid, each with its partition."""
        for topic in response.topics:
            for result in topic.partitions:
                partition = self._pending_partition(TopicPartition(topic.name, result.partition_index))
                if partition is not None:
                    yield partition, result

    def take_pending(self) -> list[FollowedPartition]:
        """Return the partitions of the pending request, which got no response."""
        pending = [self._pending_partition(topic_partition) for topic_partition in self._pending]
        self._pending = {}
        return [partition for partition in pending if partition is not None]

    def _take_ready(
        self, kind: type[QueryType], now_ms: int
    ) -> dict[str, list[tuple[FollowedPartition, QueryType]]]:
        """Return the queries of one kind that can be sent now, by topic; only they are pending afterwards."""
        topics: dict[str, list[tuple[FollowedPartition, QueryType]]] = {}
        self._pending = {}
        for topic_partition in self._open:
            partition = self._partitions[topic_partition]
            query = next_query(partition) if partition.delayed_until_ms <= now_ms else None
            if isinstance(query, kind):
                topics.setdefault(topic_partition.topic, []).append((partition, query))
                self._pending[topic_partition] = (partition.leader_epoch, query)
        return topics

    def _pending_partition(self, topic_partition: TopicPartition) -> FollowedPartition | None:
        partition = self._partitions.get(topic_partition)
        pending = self._pending.get(topic_partition)
        if partition is None or pending is None or pending[0] != partition.leader_epoch:
            return None
        return partition if next_query(partition) == pending[1] else None
