"""A follower of one tiered partition, with a scripted leader and scripted remote storage."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tests.support.replicas.followed_logs import FollowedLog, perform
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.follower_state import (
    Action,
    FetchAuxiliary,
    PartitionDelayed,
    ReplicaState,
    RestartFromRemote,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.offset_for_leader_epoch import EpochEndOffset as EpochEndQuery
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry

SETTINGS = FollowerSettings(
    replica_id=2, partition_max_bytes=1_000, max_bytes=10_000, min_bytes=1, max_wait_ms=500, backoff_ms=1_000
)


TOPIC, ID = "events", UUID(int=7)


P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


EPOCH = 5
"""The leader's."""


class Segment(NamedTuple):
    """A remote segment with its leader epochs."""

    start_offset: int
    end_offset: int
    segment_leader_epochs: tuple[tuple[int, int], ...]


class Tier:
    """Finds segments among `segments` and records the requests."""

    def __init__(self, *segments: Segment) -> None:
        self.segments = list(segments)
        self.lookups: list[tuple[int, int]] = []

    def find_segment(
        self, topic_id: UUID, topic_partition: TopicPartition, epoch: int, offset: int
    ) -> Segment | None:
        assert (topic_id, topic_partition.topic) == (ID, TOPIC)
        self.lookups.append((epoch, offset))
        for segment in self.segments:
            epochs = [entry for entry, _ in segment.segment_leader_epochs]
            if segment.start_offset <= offset <= segment.end_offset and epoch in epochs:
                return segment
        return None


def tiered_log(end: int = 0, *epochs: tuple[int, int]) -> FollowedLog:
    log = FollowedLog.of(*epochs, end=end)
    log.remote_log_enabled = True
    return log


class Follower:
    """A fetcher for the log of P0 and a scripted leader; `ask` is (request, response)."""

    def __init__(self, log: FollowedLog, tier: Tier | None, **arguments: object) -> None:
        self.fetcher = FollowerFetcher(SETTINGS, tier=tier, **arguments)  # type: ignore[arg-type]
        self.log = log
        self.now_ms = 0
        perform(self.fetcher, self.fetcher.add(P0, ID, EPOCH, log))

    @property
    def state(self) -> ReplicaState:
        return self.fetcher.partitions[P0].state

    def on_fetched(self, data: PartitionData) -> list[Action]:
        assert self.fetcher.build_fetch(self.now_ms) is not None
        topics = (FetchableTopicResponse(topic_id=ID, partitions=(data,)),)
        return self.fetcher.on_fetch(FetchResponse(session_id=9, responses=topics), self.now_ms)

    def on_refused(self, code: ErrorCode = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE) -> list[Action]:
        return self.on_fetched(PartitionData(partition_index=0, error_code=code))

    def offset(self, timestamp: int, offset: int, epoch: int = -1, error: int = 0) -> list[Action]:
        """Expect a ListOffsets request for `timestamp` and respond with `offset`."""
        request = self.fetcher.build_offsets_request(self.now_ms)
        assert request is not None
        (query,) = request.topics[0].partitions
        assert (query.timestamp, query.current_leader_epoch) == (timestamp, EPOCH)
        response = ListOffsetsPartitionResponse(
            partition_index=0, offset=offset, leader_epoch=epoch, error_code=error
        )
        topics = (ListOffsetsTopicResponse(name=TOPIC, partitions=(response,)),)
        return self.fetcher.on_offsets(ListOffsetsResponse(topics=topics), self.now_ms)

    def epoch_end(self, requested_epoch: int, epoch: int, end_offset: int, error: int = 0) -> list[Action]:
        """Expect a request for the end of `requested_epoch` and respond with `epoch` and `end_offset`."""
        request = self.fetcher.build_epoch_request(self.now_ms)
        assert request is not None
        (query,) = request.topics[0].partitions
        assert (query.leader_epoch, query.current_leader_epoch) == (requested_epoch, EPOCH)
        response = EpochEndQuery(partition=0, leader_epoch=epoch, end_offset=end_offset, error_code=error)
        topics = (OffsetForLeaderTopicResult(topic=TOPIC, partitions=(response,)),)
        return self.fetcher.on_epochs(OffsetForLeaderEpochResponse(topics=topics), self.now_ms)

    def auxiliary(
        self, action: Action, *epochs: tuple[int, int], producers: bytes | None = None
    ) -> RestartFromRemote | PartitionDelayed | None:
        """Respond as remote storage."""
        assert isinstance(action, FetchAuxiliary)
        return self.fetcher.on_auxiliary_fetched(action, epochs, producers, self.now_ms)

    def next_fetch(self) -> FetchPartition:
        request = self.fetcher.build_fetch(self.now_ms)
        assert request is not None
        return request.topics[0].partitions[0]


def producer(producer_id: int, last_offset: int) -> ProducerEntry:
    entry = ProducerEntry(producer_id=producer_id, producer_epoch=0)
    entry.batches.append(BatchMetadata(0, last_offset, 0, 1_000))
    return entry
