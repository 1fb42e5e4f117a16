"""The deadlines of the members of consumer groups."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.shared.moment import Moment

_KINDS = (
    DeadlineKind.CONSUMER_SESSION,
    DeadlineKind.REVOCATION,
    DeadlineKind.CLASSIC_JOIN,
    DeadlineKind.CLASSIC_SYNC,
)


class MemberTimers:
    """Sets and cancels the deadlines of members."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        """Restart the session of a member."""
        self._set(DeadlineKind.CONSUMER_SESSION, group_id, member_id, timeout_ms, now)

    def expect_revocation(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Start the time in which a member must revoke its partitions."""
        timeout_ms = member.rebalance_timeout_ms
        self._set(DeadlineKind.REVOCATION, group_id, member.member_id, timeout_ms, now)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        """Note that a member has nothing to revoke."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.REVOCATION, group_id, member_id))

    def expect_join(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Start the time in which a classic member must join again, unless it has started."""
        key = DeadlineKey(DeadlineKind.CLASSIC_JOIN, group_id, member.member_id)
        if key not in self._deadlines:
            self._deadlines.set(key, now.monotonic_ms + member.rebalance_timeout_ms)

    def on_joined(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Start the time in which a classic member that has joined must send SyncGroup."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CLASSIC_JOIN, group_id, member.member_id))
        timeout_ms = member.rebalance_timeout_ms
        self._set(DeadlineKind.CLASSIC_SYNC, group_id, member.member_id, timeout_ms, now)

    def on_synced(self, group_id: str, member_id: str) -> None:
        """Note that a classic member has sent SyncGroup."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CLASSIC_SYNC, group_id, member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        """Cancel all deadlines of a member that is removed."""
        for kind in _KINDS:
            self._deadlines.cancel(DeadlineKey(kind, group_id, member_id))

    def _set(self, kind: DeadlineKind, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        self._deadlines.set(DeadlineKey(kind, group_id, member_id), now.monotonic_ms + timeout_ms)
