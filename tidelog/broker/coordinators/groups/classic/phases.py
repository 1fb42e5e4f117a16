"""The two phases of a rebalance of a classic group: members join, then they get their assignments."""

from __future__ import annotations


class JoinPhase:
    """The waiting time of the current join phase.

    The first rebalance of a group is delayed for more members, and each new member extends the delay.
    """

    def __init__(self) -> None:
        self._delay_ms = 0
        self._extension_ms: int | None = None
        """By how much the delay may still be extended; None in later rebalances."""
        self._has_new_member = False

    def begin(self) -> None:
        """Begin without new members."""
        self._has_new_member = False

    def wait(self, delay_ms: int, extension_ms: int | None) -> None:
        """Wait for `delay_ms`, which may be extended by `extension_ms`; None for a later rebalance."""
        self._delay_ms = delay_ms
        self._extension_ms = extension_ms

    def on_member_added(self) -> None:
        """Extend the delay when it ends, because a member has joined."""
        self._has_new_member = True

    def extend(self, delay_ms_max: int) -> int | None:
        """Extend the delay if a member has joined; return the further delay, None if the phase ends."""
        if not (self._has_new_member and self._extension_ms):
            return None
        self._has_new_member = False
        delay_ms = min(delay_ms_max, self._extension_ms)
        self.wait(delay_ms, max(self._extension_ms - self._delay_ms, 0))
        return delay_ms

    def end(self) -> None:
        """End the delay, which is not extended any more."""
        self._extension_ms = None


class SyncPhase:
    """The SyncGroup requests that the current generation waits for, and the assignment of its leader.

    A dictionary is used as an ordered set, so that runs are repeatable.
    """

    def __init__(self) -> None:
        self._late: dict[str, None] = {}
        self._assigned_generation = -1
        """The last generation whose leader has sent the assignment."""

    @property
    def late_members(self) -> list[str]:
        """The ids of the members that have joined and have not sent SyncGroup yet."""
        return list(self._late)

    @property
    def is_complete(self) -> bool:
        """Whether the SyncGroup of no member is missing."""
        return not self._late

    def expect(self, member_id: str) -> None:
        """Wait for the SyncGroup of a member, whose JoinGroup has its response."""
        self._late[member_id] = None

    def on_synced(self, member_id: str) -> None:
        """Wait no longer for a member, which has sent SyncGroup or is removed."""
        self._late.pop(member_id, None)

    def rename(self, member_id: str, new_id: str) -> None:
        """Wait for `new_id` instead of `member_id`."""
        if member_id in self._late:
            del self._late[member_id]
            self._late[new_id] = None

    def cancel(self) -> None:
        """Wait for no member."""
        self._late.clear()

    def has_assignment(self, generation: int) -> bool:
        """Return whether the leader of `generation` has sent the assignment."""
        return self._assigned_generation == generation

    def on_assignment_received(self, generation: int) -> None:
        """Accept no further assignment for `generation`: its leader has sent one."""
        self._assigned_generation = generation
