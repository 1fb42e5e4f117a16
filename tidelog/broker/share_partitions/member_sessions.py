"""The end of share sessions: the records of the member are released, unused share partitions are dropped.

Records of partitions that the member has removed from its session are released too. Until then they stay
acquired, as in Kafka: the member may acknowledge them.
A session ends with its last request, or with the connection on which it was opened. A member that opens
another one keeps its records, as in Kafka, unless it has sent the last request of the former one.
Source: ShareSessionCache and SharePartitionManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.share_partitions.registry import SharePartitions
from tidelog.broker.share_partitions.share_sessions import (
    MemberKey,
    ShareSession,
    ShareSessions,
    TopicIdAndIndex,
)
from tidelog.protocol.errors import KafkaError


class MemberSessions:
    """Opens and ends the share sessions of a node."""

    def __init__(self, sessions: ShareSessions, share_partitions: SharePartitions) -> None:
        self.sessions = sessions
        self.disconnected_count = 0
        """The total of sessions that ended because their connection ended."""
        self._share_partitions = share_partitions
        self._open: dict[MemberKey, tuple[ShareSession, ConnectedClient]] = {}
        self._members_of: dict[ConnectedClient, set[MemberKey]] = {}
        """The members by connection; a connection that has had a session stays until it ends."""
        self._session_counts: Counter[str] = Counter()

    def open(
        self, member: MemberKey, partitions: Sequence[TopicIdAndIndex], client: ConnectedClient
    ) -> ShareSession:
        """Open a session on a connection; an existing session of the member ends.

        Errors: KafkaError SHARE_SESSION_LIMIT_REACHED.
        """
        former = self._open.get(member)
        if former is not None and former[0].is_last_request_received:
            self._share_partitions.release_member(member.group_id, member.member_id)
        self._forget(member)
        try:
            session = self.sessions.open(member, partitions)
        except KafkaError:
            self._drop_group_if_unused(member.group_id)
            raise
        self._open[member] = (session, client)
        self._session_counts[member.group_id] += 1
        if client not in self._members_of:
            self._members_of[client] = set()
            client.when_disconnected(lambda: self._on_disconnected(client))
        self._members_of[client].add(member)
        return session

    @contextmanager
    def ending_on_failure(self, session: ShareSession, *, is_last: bool) -> Iterator[None]:
        """End a session if its last request fails, or if its connection ends while it is served.

        Kafka, too, ends the session independently of the result of its last request.
        """
        try:
            yield
        except BaseException:
            if is_last:
                self.end(session)
            raise

    def release_if_ended(self, session: ShareSession) -> None:
        """Release the records that a member has acquired while its session ended."""
        member = session.key
        if member not in self._open:
            self._share_partitions.release_member(member.group_id, member.member_id)
            self._drop_group_if_unused(member.group_id)

    def end(self, session: ShareSession) -> None:
        """End a session and release the records of its member; drop share partitions that are unused then.

        A session that the member has replaced meanwhile has ended already, and its records were released.
        """
        member = session.key
        entry = self._open.get(member)
        if entry is None or entry[0] is not session:
            return
        self._share_partitions.release_member(member.group_id, member.member_id)
        self._forget(member)
        self.sessions.end(session)
        self._drop_group_if_unused(member.group_id)

    def _drop_group_if_unused(self, group_id: str) -> None:
        """Drop the share partitions of a group without sessions: their state may be changed meanwhile."""
        if group_id not in self._session_counts:
            self._share_partitions.drop_group(group_id)

    def _forget(self, member: MemberKey) -> None:
        entry = self._open.pop(member, None)
        if entry is None:
            return
        self._members_of[entry[1]].discard(member)
        self._session_counts[member.group_id] -= 1
        if not self._session_counts[member.group_id]:
            del self._session_counts[member.group_id]

    def _on_disconnected(self, client: ConnectedClient) -> None:
        for member in list(self._members_of[client]):
            self.disconnected_count += 1
            self.end(self._open[member][0])
        del self._members_of[client]
