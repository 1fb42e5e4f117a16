"""What a follower has to know before it can fetch: where its last epoch ends, where the leader's log is.

The partitions that are TRUNCATING are asked about with OffsetForLeaderEpoch, those RESETTING with
ListOffsets: first for the log's end, and if that is not below the follower's own, for its start.

Invariant: an answer counts only for partitions that are still in the leader epoch they were asked in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cluster.replication.follower_state import FollowedPartition, ReplicaState
from protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2


class FollowerQuestions:
    """The questions of one fetcher, one of which may be under way."""

    def __init__(self, replica_id: BrokerId, partitions: Mapping[TopicPartition, FollowedPartition]) -> None:
        self._replica_id = replica_id
        self._partitions = partitions
        self._open: dict[TopicPartition, None] = {}
        self._asked: dict[TopicPartition, LeaderEpoch] = {}

    def add(self, topic_partition: TopicPartition) -> None:
        """There is something to ask about a partition."""
        self._open[topic_partition] = None

    def discard(self, topic_partition: TopicPartition) -> None:
        """All is known, or the partition is gone."""
        self._open.pop(topic_partition, None)

    def epoch_request(self, now_ms: int) -> OffsetForLeaderEpochRequest | None:
        """Where the last epochs of those end that are TRUNCATING."""
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        self._asked = {}
        for partition in self._due(ReplicaState.TRUNCATING, now_ms):
            topic, index = partition.topic_partition
            epoch = partition.log.leader_epochs.latest_epoch
            assert epoch is not None, f"{partition.topic_partition} has no epoch to ask for"
            asked = OffsetForLeaderPartition(
                partition=index, current_leader_epoch=partition.leader_epoch, leader_epoch=epoch
            )
            topics.setdefault(topic, []).append(asked)
        if not topics:
            return None
        return OffsetForLeaderEpochRequest(
            replica_id=self._replica_id,
            topics=tuple(
                OffsetForLeaderTopic(topic=topic, partitions=tuple(asked)) for topic, asked in topics.items()
            ),
        )

    def epoch_answers(
        self, response: OffsetForLeaderEpochResponse
    ) -> Iterator[tuple[FollowedPartition, EpochEndOffset]]:
        """The answers that still count, each with its partition."""
        for topic in response.topics:
            for answer in topic.partitions:
                partition = self._still_asked(TopicPartition(topic.topic, answer.partition))
                if partition is not None and partition.state is ReplicaState.TRUNCATING:
                    yield partition, answer

    def offsets_request(self, now_ms: int) -> ListOffsetsRequest | None:
        """Where the leader's log ends, or starts, of those RESETTING."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        self._asked = {}
        for partition in self._due(ReplicaState.RESETTING, now_ms):
            topic, index = partition.topic_partition
            knows_end = partition.leader_end_offset is not None
            asked = ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=partition.leader_epoch,
                timestamp=EARLIEST_TIMESTAMP if knows_end else LATEST_TIMESTAMP,
            )
            topics.setdefault(topic, []).append(asked)
        if not topics:
            return None
        return ListOffsetsRequest(
            replica_id=self._replica_id,
            topics=tuple(
                ListOffsetsTopic(name=topic, partitions=tuple(asked)) for topic, asked in topics.items()
            ),
        )

    def offsets_answers(
        self, response: ListOffsetsResponse
    ) -> Iterator[tuple[FollowedPartition, ListOffsetsPartitionResponse]]:
        """The answers that still count, each with its partition."""
        for topic in response.topics:
            for answer in topic.partitions:
                partition = self._still_asked(TopicPartition(topic.name, answer.partition_index))
                if partition is not None and partition.state is ReplicaState.RESETTING:
                    yield partition, answer

    def lost(self) -> list[FollowedPartition]:
        """The request under way has no answer: what it was about."""
        asked = [self._still_asked(topic_partition) for topic_partition in self._asked]
        self._asked = {}
        return [partition for partition in asked if partition is not None]

    def _due(self, state: ReplicaState, now_ms: int) -> Iterator[FollowedPartition]:
        for topic_partition in self._open:
            partition = self._partitions[topic_partition]
            if partition.is_due(state, now_ms):
                self._asked[topic_partition] = partition.leader_epoch
                yield partition

    def _still_asked(self, topic_partition: TopicPartition) -> FollowedPartition | None:
        partition = self._partitions.get(topic_partition)
        if partition is None or self._asked.get(topic_partition) != partition.leader_epoch:
            return None
        return partition
