"""The deadlines of streams groups: sessions, revocations and the delay of the first assignment."""

from __future__ import annotations

from typing import Final

from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.shared.moment import Moment

STREAMS_DEADLINES: Final = frozenset(
    {
        DeadlineKind.STREAMS_SESSION,
        DeadlineKind.STREAMS_REVOCATION,
        DeadlineKind.STREAMS_INITIAL_DELAY,
    }
)


class StreamsTimers:
    """Sets and cancels the deadlines of groups and their members."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        """Restart the session of a member."""
        self._set(DeadlineKey(DeadlineKind.STREAMS_SESSION, group_id, member_id), timeout_ms, now)

    def expect_revocation(self, group_id: str, member: StreamsMember, now: Moment) -> None:
        """Start the time in which a member must revoke its tasks."""
        key = DeadlineKey(DeadlineKind.STREAMS_REVOCATION, group_id, member.member_id)
        self._set(key, member.rebalance_timeout_ms, now)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        """Note that a member has nothing to revoke."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.STREAMS_REVOCATION, group_id, member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        """Cancel the deadlines of a member that is removed."""
        for kind in (DeadlineKind.STREAMS_SESSION, DeadlineKind.STREAMS_REVOCATION):
            self._deadlines.cancel(DeadlineKey(kind, group_id, member_id))

    def delay_assignment(self, group_id: str, delay_ms: int, now: Moment) -> None:
        """Start the delay of the first assignment of a group, unless it has started."""
        if not self.is_assignment_delayed(group_id):
            self._set(DeadlineKey(DeadlineKind.STREAMS_INITIAL_DELAY, group_id), delay_ms, now)

    def is_assignment_delayed(self, group_id: str) -> bool:
        """Return whether the delay of the first assignment of a group has not ended."""
        return DeadlineKey(DeadlineKind.STREAMS_INITIAL_DELAY, group_id) in self._deadlines

    def end_delay(self, group_id: str) -> None:
        """Cancel the delay of the first assignment of a group that is removed."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.STREAMS_INITIAL_DELAY, group_id))

    def _set(self, key: DeadlineKey, timeout_ms: int, now: Moment) -> None:
        self._deadlines.set(key, now.monotonic_ms + timeout_ms)
