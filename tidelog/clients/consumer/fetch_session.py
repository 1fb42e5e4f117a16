"""An incremental fetch session with one broker: a request has only the changes since the last one.

Pure. Epoch 0 requests a new session and lists all partitions. Each following request has the next epoch and
lists only the partitions that were added, changed or removed. After an error, the broker's state is unknown:
the next request is full again and closes the old session.

Source: KIP-227; KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1


class SessionPartition(NamedTuple):
    """The values of one partition in a fetch request."""

    topic_id: UUID
    fetch_offset: Offset
    current_leader_epoch: LeaderEpoch
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The session fields of one fetch request."""

    session_id: int
    epoch: int
    to_send: Mapping[TopicPartition, SessionPartition]
    forgotten: Mapping[TopicPartition, UUID]


class FetchSession:
    """The client's state of the session with one broker.

    Invariant: the broker's session has `partitions` once it has received the latest request.
    """

    __slots__ = ("_by_topic_id", "epoch", "partitions", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[TopicPartition, SessionPartition] = {}
        self._by_topic_id = False

    def build(
        self, partitions: Mapping[TopicPartition, SessionPartition], *, by_topic_id: bool
    ) -> SessionRequest:
        """Return the next request, after which the session has exactly `partitions`."""
        if by_topic_id != self._by_topic_id:
            self._start_over()
            self._by_topic_id = by_topic_id
        if self.epoch == INITIAL_EPOCH:
            self.partitions = dict(partitions)
            return SessionRequest(self.session_id, INITIAL_EPOCH, dict(partitions), {})
        known = self.partitions
        to_send = {
            topic_partition: partition
            for topic_partition, partition in partitions.items()
            if known.get(topic_partition) != partition
        }
        # A re-created topic with the same name has another id: the old one has to be removed.
        forgotten = {
            topic_partition: partition.topic_id
            for topic_partition, partition in known.items()
            if topic_partition not in partitions
            or (by_topic_id and partitions[topic_partition].topic_id != partition.topic_id)
        }
        self.partitions = dict(partitions)
        return SessionRequest(self.session_id, self.epoch, to_send, forgotten)

    def on_success(self, session_id: int) -> None:
        """Record a response to the latest request without an error of the session."""
        if self.epoch == INITIAL_EPOCH:
            self.session_id = session_id
            self.epoch = INITIAL_EPOCH if session_id == NO_SESSION else 1
        elif session_id == NO_SESSION:
            # The broker has closed the session.
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def on_failure(self, code: ErrorCode) -> None:
        """Record that the latest request failed; the next request is full."""
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION
        self._start_over()

    def _start_over(self) -> None:
        """Make the next request full; it replaces the session, if there is one."""
        self.epoch = INITIAL_EPOCH

    def close(self) -> SessionRequest | None:
        """Return a request that closes the session; None if there is no session."""
        if self.session_id == NO_SESSION:
            return None
        return SessionRequest(self.session_id, FINAL_EPOCH, {}, {})
