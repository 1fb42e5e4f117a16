"""A follower's fetch session with one leader: requests contain only changes (KIP-227).

Unlike a consumer's session, this one receives the changes since the last request from its caller. The cost of
a request therefore depends on the changes, not on the number of partitions.

Invariant: `sent` is the content of the leader's session after the last request.
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
    """The fields of a partition in the last request that contained it."""

    topic_id: UUID
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    max_bytes: int


class FollowerSession:
    """The follower's state of the session."""

    __slots__ = ("epoch", "sent", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.sent: dict[TopicPartition, SentPartition] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request must contain every partition."""
        return self.epoch == INITIAL_EPOCH

    def change(
        self, fetched: Mapping[TopicPartition, SentPartition], removed: Iterable[TopicPartition]
    ) -> tuple[tuple[FetchTopic, ...], tuple[ForgottenTopic, ...]]:
        """Return the topics and forgotten topics of the next request.

        `fetched`: the changed partitions to fetch. `removed`: those to remove from the session. A full
        request contains only `fetched`.
        """
        if self.is_full:
            self.sent = dict(fetched)
            return _fetch_topics(fetched), ()
        changed: dict[TopicPartition, SentPartition] = {}
        forgotten: list[tuple[TopicPartition, UUID]] = []
        for topic_partition in removed:
            known = self.sent.pop(topic_partition, None)
            if known is not None:
                forgotten.append((topic_partition, known.topic_id))
        for topic_partition, partition in fetched.items():
            known = self.sent.get(topic_partition)
            if known == partition:
                continue
            if known is not None and known.topic_id != partition.topic_id:
                # The topic was re-created with the same name: the session must not keep the old topic.
                forgotten.append((topic_partition, known.topic_id))
            self.sent[topic_partition] = changed[topic_partition] = partition
        return _fetch_topics(changed), _forgotten_topics(forgotten)

    def on_response(self, session_id: int) -> None:
        """Advance the session after a response without top-level error."""
        if session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        elif self.epoch == INITIAL_EPOCH:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def on_failure(self, code: ErrorCode) -> None:
        """Make the next request a full one, because the last request failed or got no response."""
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH


def _fetch_topics(partitions: Mapping[TopicPartition, SentPartition]) -> tuple[FetchTopic, ...]:
    topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
    for topic_partition, sent in partitions.items():
        topics.setdefault((topic_partition.topic, sent.topic_id), []).append(
            FetchPartition(
                partition=topic_partition.partition,
                current_leader_epoch=sent.leader_epoch,
                fetch_offset=sent.fetch_offset,
                last_fetched_epoch=sent.last_fetched_epoch,
                log_start_offset=sent.log_start_offset,
                partition_max_bytes=sent.max_bytes,
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
