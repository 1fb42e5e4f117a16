"""Share sessions (KIP-932): the partitions of one member, so that its fetches need not repeat them.

The key of a session is group and member. The epoch of a request determines what happens:

    epoch 0           a new session; an existing one of the member ends
    epoch -1          the last request: the session ends after it, and the member's records are released
    the next epoch    the partitions change as listed
    another epoch     INVALID_SHARE_SESSION_EPOCH
    no session        SHARE_SESSION_NOT_FOUND

A session also ends when the connection of its member ends.

Bounds: group.share.max.share.sessions, `SESSION_PARTITIONS_MAX` in each session and `PARTITIONS_MAX` in all:
SHARE_SESSION_LIMIT_REACHED. Kafka bounds the number of sessions only.
I/O: none. Source: ShareSessionCache and SharePartitionManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode, KafkaError

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
SESSION_PARTITIONS_MAX: Final = 20_000
PARTITIONS_MAX: Final = 100_000
_EPOCH_MAX: Final = 0x7FFFFFFF


class TopicIdAndIndex(NamedTuple):
    """A partition as requests of share groups name it."""

    topic_id: UUID
    partition: int


class MemberKey(NamedTuple):
    """The key of a session."""

    group_id: str
    member_id: str


@dataclass(slots=True, eq=False)
class ShareSession:
    """The partitions of a member; the value is whether the next response must contain the partition."""

    key: MemberKey
    epoch: int = 1
    """The epoch of the next request."""
    partitions: dict[TopicIdAndIndex, bool] = field(default_factory=dict)
    is_last_request_received: bool = False
    """Whether a request is being served after which the session ends, also if it fails."""

    def must_send(self, partition: TopicIdAndIndex, *, has_records: bool, has_error: bool) -> bool:
        """Return whether a response must contain the result of a partition, and record it as sent.

        After an error, the next result is sent too: it shows the member that the error has ended.
        """
        is_required = self.partitions.get(partition, True)
        if partition in self.partitions:
            self.partitions[partition] = has_error
        return is_required or has_records or has_error


class ShareSessions:
    """All share sessions of one broker."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return self._partition_count

    def open(self, key: MemberKey, partitions: Sequence[TopicIdAndIndex]) -> ShareSession:
        """Open a session with epoch 0; an existing session of the member ends.

        Errors: KafkaError SHARE_SESSION_LIMIT_REACHED.
        """
        self.end(self._sessions.get(key))
        if len(self._sessions) >= self._sessions_max:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"this broker has {len(self._sessions)} share sessions; group.share.max.share.sessions is "
                f"{self._sessions_max}",
            )
        self._check_room(len(partitions), 0)
        session = ShareSession(key, partitions=dict.fromkeys(partitions, False))
        self._sessions[key] = session
        self._partition_count += len(session.partitions)
        return session

    def next(self, key: MemberKey, epoch: int) -> ShareSession:
        """Return the session of a request with this epoch, and expect the next one.

        With FINAL_EPOCH any session of the member is returned. It has not ended yet.
        Errors: KafkaError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {key.member_id} of {key.group_id} has no session"
            )
        if epoch == FINAL_EPOCH:
            session.is_last_request_received = True
            return session
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"the session of member {key.member_id} expects epoch {session.epoch}, not {epoch}",
            )
        session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else 1
        return session

    def update(
        self, session: ShareSession, added: Sequence[TopicIdAndIndex], removed: Collection[TopicIdAndIndex]
    ) -> None:
        """Add and remove partitions. The session ends if it has too many: the member opens another one.

        Errors: KafkaError SHARE_SESSION_LIMIT_REACHED.
        """
        count_before = len(session.partitions)
        added_count = len(added)
        if added_count <= SESSION_PARTITIONS_MAX:
            # Those that the session has already are in the request because of their acknowledgements.
            added_count = sum(each not in session.partitions for each in added)
        try:
            self._check_room(added_count, count_before)
        except KafkaError:
            self.end(session)
            raise
        for partition in added:
            session.partitions.setdefault(partition, True)
        if len(removed) > len(session.partitions):
            removed = [partition for partition in session.partitions if partition in removed]
        for partition in removed:
            session.partitions.pop(partition, None)
        self._partition_count += len(session.partitions) - count_before

    def end(self, session: ShareSession | None) -> None:
        """End a session, if it has not ended yet."""
        if session is not None and self._sessions.get(session.key) is session:
            del self._sessions[session.key]
            self._partition_count -= len(session.partitions)

    def _check_room(self, added: int, present: int) -> None:
        if added + present > SESSION_PARTITIONS_MAX or added + self._partition_count > PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"a share session has at most {SESSION_PARTITIONS_MAX} partitions, and all together "
                f"{PARTITIONS_MAX}",
            )
