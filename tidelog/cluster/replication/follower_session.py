"""A follower's fetch session with one leader: only what has changed is said (KIP-227).

Unlike a consumer's session this one is told what changed since the last request, so that a request
costs as much as there is news, however many partitions are followed.

Invariant: `sent` is what the leader has in the session once the request built last arrives.
Source: KIP-227, KIP-516; FetchSessionHandler of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class SentPartition(NamedTuple):
    """What the last request that named a partition said of it."""

    topic_id: UUID
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    max_bytes: int


class FollowerSession:
    """Our side of the session."""

    __slots__ = ("epoch", "sent", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.sent: dict[TopicPartition, SentPartition] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request has to name every partition."""
        return self.epoch == INITIAL_EPOCH

    def change(
        self, wanted: Mapping[TopicPartition, SentPartition], unwanted: Iterable[TopicPartition]
    ) -> tuple[tuple[FetchTopic, ...], tuple[ForgottenTopic, ...]]:
        """What the next request names and forgets; a full one names `wanted` and nothing else."""
        if self.is_full:
            self.sent = dict(wanted)
            return _fetch_topics(wanted), ()
        news: dict[TopicPartition, SentPartition] = {}
        forgotten: list[tuple[TopicPartition, UUID]] = []
        for topic_partition in unwanted:
            known = self.sent.pop(topic_partition, None)
            if known is not None:
                forgotten.append((topic_partition, known.topic_id))
        for topic_partition, partition in wanted.items():
            known = self.sent.get(topic_partition)
            if known == partition:
                continue
            if known is not None and known.topic_id != partition.topic_id:
                # A topic made anew under the same name: the session must not keep the old one.
                forgotten.append((topic_partition, known.topic_id))
            self.sent[topic_partition] = news[topic_partition] = partition
        return _fetch_topics(news), _forgotten_topics(forgotten)

    def answered(self, session_id: int) -> None:
        """The request built last was answered without an error for the whole."""
        if session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        elif self.epoch == INITIAL_EPOCH:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def failed(self, code: ErrorCode) -> None:
        """The request built last failed as a whole, or is lost: the next one is full."""
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH


def _fetch_topics(partitions: Mapping[TopicPartition, SentPartition]) -> tuple[FetchTopic, ...]:
    topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
    for topic_partition, said in partitions.items():
        topics.setdefault((topic_partition.topic, said.topic_id), []).append(
            FetchPartition(
                partition=topic_partition.partition,
                current_leader_epoch=said.leader_epoch,
                fetch_offset=said.fetch_offset,
                last_fetched_epoch=said.last_fetched_epoch,
                log_start_offset=said.log_start_offset,
                partition_max_bytes=said.max_bytes,
            )
        )
    return tuple(
        FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(listed))
        for (topic, topic_id), listed in topics.items()
    )


def _forgotten_topics(partitions: Iterable[tuple[TopicPartition, UUID]]) -> tuple[ForgottenTopic, ...]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for topic_partition, topic_id in partitions:
        topics.setdefault((topic_partition.topic, topic_id), []).append(topic_partition.partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(listed))
        for (topic, topic_id), listed in topics.items()
    )
