"""What a follower has to know before it can fetch: where epochs end, where the leader's log is.

| state | asks |
|---|---|
| TRUNCATING | where the last epoch of the follower's log ends (OffsetForLeaderEpoch) |
| RESETTING | the log's end, and if that is not below the follower's own, its start (ListOffsets) |
| BUILDING_REMOTE_LOG_AUX | ListOffsets and OffsetForLeaderEpoch, step by step: see follower_aux |

Invariant: an answer counts only for partitions that are still in the leader epoch and at the question
they were asked in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from tidelog.cluster.replication.follower_state import AuxStep, FollowedPartition, ReplicaState
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


class EndOfEpoch(NamedTuple):
    """Where does this epoch end, or the largest below it?"""

    epoch: LeaderEpoch


class OffsetAt(NamedTuple):
    """Which offset does this timestamp stand for?"""

    timestamp: int


Question: TypeAlias = EndOfEpoch | OffsetAt

_TIMESTAMP_OF_STEP: Final = {
    AuxStep.LOG_START: EARLIEST_TIMESTAMP,
    AuxStep.PENDING_UPLOAD: EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    AuxStep.LOCAL_START: EARLIEST_LOCAL_TIMESTAMP,
}


def question_of(partition: FollowedPartition) -> Question | None:
    """What is to be asked about a partition now; None when it fetches, or waits for the tier."""
    state = partition.state
    if state is ReplicaState.TRUNCATING:
        epoch = partition.log.leader_epochs.latest_epoch
        assert epoch is not None, f"{partition.topic_partition} has no epoch to ask for"
        return EndOfEpoch(epoch)
    if state is ReplicaState.RESETTING:
        return OffsetAt(LATEST_TIMESTAMP if partition.leader_end_offset is None else EARLIEST_TIMESTAMP)
    build = partition.aux
    if build is None or build.step is AuxStep.AUXILIARY:
        return None
    if build.step is AuxStep.EPOCH_END:
        return EndOfEpoch(max(0, build.start_epoch - 1))
    if build.step is AuxStep.SEGMENT_EPOCH:
        assert build.segment is not None, build
        return EndOfEpoch(build.segment.segment_leader_epochs[-1][0])
    return OffsetAt(_TIMESTAMP_OF_STEP[build.step])


class FollowerQuestions:
    """The questions of one fetcher, one request of which may be under way."""

    def __init__(self, replica_id: BrokerId, partitions: Mapping[TopicPartition, FollowedPartition]) -> None:
        self._replica_id = replica_id
        self._partitions = partitions
        self._open: dict[TopicPartition, None] = {}
        self._asked: dict[TopicPartition, tuple[LeaderEpoch, Question]] = {}

    def add(self, topic_partition: TopicPartition) -> None:
        """There is something to ask about a partition."""
        self._open[topic_partition] = None

    def discard(self, topic_partition: TopicPartition) -> None:
        """All is known, or the partition is gone."""
        self._open.pop(topic_partition, None)

    def epoch_request(self, now_ms: int) -> OffsetForLeaderEpochRequest | None:
        """Where epochs end of those that have to know."""
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        self._asked = {}
        for partition, question in self._due(now_ms):
            if isinstance(question, EndOfEpoch):
                topic, index = partition.topic_partition
                asked = OffsetForLeaderPartition(
                    partition=index, current_leader_epoch=partition.leader_epoch, leader_epoch=question.epoch
                )
                topics.setdefault(topic, []).append(asked)
                self._asked[partition.topic_partition] = (partition.leader_epoch, question)
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
                if partition is not None:
                    yield partition, answer

    def offsets_request(self, now_ms: int) -> ListOffsetsRequest | None:
        """Where the leader's log ends, or starts, of those that have to know."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        self._asked = {}
        for partition, question in self._due(now_ms):
            if isinstance(question, OffsetAt):
                topic, index = partition.topic_partition
                asked = ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=partition.leader_epoch,
                    timestamp=question.timestamp,
                )
                topics.setdefault(topic, []).append(asked)
                self._asked[partition.topic_partition] = (partition.leader_epoch, question)
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
                if partition is not None:
                    yield partition, answer

    def lost(self) -> list[FollowedPartition]:
        """The request under way has no answer: what it was about."""
        asked = [self._still_asked(topic_partition) for topic_partition in self._asked]
        self._asked = {}
        return [partition for partition in asked if partition is not None]

    def _due(self, now_ms: int) -> Iterator[tuple[FollowedPartition, Question]]:
        for topic_partition in self._open:
            partition = self._partitions[topic_partition]
            if partition.delayed_until_ms <= now_ms:
                question = question_of(partition)
                if question is not None:
                    yield partition, question

    def _still_asked(self, topic_partition: TopicPartition) -> FollowedPartition | None:
        partition = self._partitions.get(topic_partition)
        asked = self._asked.get(topic_partition)
        if partition is None or asked is None or asked[0] != partition.leader_epoch:
            return None
        return partition if question_of(partition) == asked[1] else None
