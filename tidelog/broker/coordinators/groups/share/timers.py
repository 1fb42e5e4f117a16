"""The sessions of the members of share groups."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.shared.moment import Moment


class ShareMemberTimers:
    """Sets and cancels the deadlines of members."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        """Restart the session of a member."""
        key = DeadlineKey(DeadlineKind.SHARE_SESSION, group_id, member_id)
        self._deadlines.set(key, now.monotonic_ms + timeout_ms)

    def cancel(self, group_id: str, member_id: str) -> None:
        """Cancel the deadline of a member that is removed."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.SHARE_SESSION, group_id, member_id))
