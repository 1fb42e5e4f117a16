"""The epochs of a group whose partitions the coordinator assigns (KIP-848).

The group epoch is incremented when members, subscriptions or the metadata of topics change. The assignment
epoch is the group epoch for which the target assignment was computed. A new group has 1 for both,
and an empty target.

I/O: none.
"""

from __future__ import annotations

from typing import Final

FIRST_EPOCH: Final = 1
NO_ASSIGNMENT_EPOCH: Final = -1
NO_ASSIGNMENT_TIME: Final = 0
"""The wall-clock time of a target assignment that was not computed for members."""

JOIN_EPOCH: Final = 0
"""The member epoch of the request of a member that joins."""
LEAVE_EPOCH: Final = -1
"""The member epoch of the request of a member that leaves, and of a member whose records are deleted."""


class GroupEpochs:
    """The epochs of one group, and whether the metadata of its topics must be checked.

    `metadata_hash` is the hash of the metadata of the subscribed topics at the group epoch.
    `assignment_wall_ms` is the time at which the target assignment was computed.
    """

    __slots__ = (
        "_checked_epoch",
        "_metadata_changed",
        "assignment_epoch",
        "assignment_wall_ms",
        "group_epoch",
        "metadata_hash",
    )

    def __init__(self) -> None:
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_wall_ms = NO_ASSIGNMENT_TIME
        self._metadata_changed = True
        self._checked_epoch = 0

    def set_group_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch, and the hash of the metadata of the topics at it."""
        self.group_epoch = epoch
        self.metadata_hash = metadata_hash

    def set_assignment_epoch(self, epoch: int, wall_ms: int) -> None:
        """Set the epoch of the target assignment, and the time at which it was computed."""
        self.assignment_epoch = epoch
        self.assignment_wall_ms = wall_ms

    def delete_assignment_epoch(self) -> None:
        """Note that the group has no target assignment."""
        self.set_assignment_epoch(NO_ASSIGNMENT_EPOCH, NO_ASSIGNMENT_TIME)

    def keeps_assignment(self, group_epoch: int, interval_ms: int, now_wall_ms: int) -> bool:
        """Return whether the target assignment is that of `group_epoch`, or is not yet to be replaced.

        `interval_ms` is the shortest time between two target assignments. A time in the future means that the
        clock was set back, or that the clock of an earlier coordinator was ahead: it delays nothing.
        """
        return self.assignment_epoch >= group_epoch or (
            self.assignment_wall_ms != NO_ASSIGNMENT_TIME
            and 0 <= now_wall_ms - self.assignment_wall_ms < interval_ms
        )

    # Metadata of the topics

    @property
    def must_check_metadata(self) -> bool:
        """Whether the metadata of the topics may have changed since it was checked."""
        return self._metadata_changed or self.group_epoch < self._checked_epoch

    def on_topics_changed(self) -> None:
        """Let the next heartbeat compare the metadata of the topics."""
        self._metadata_changed = True

    def on_metadata_checked(self, epoch: int) -> None:
        """Note that the metadata of the topics is that of the group epoch `epoch`."""
        self._metadata_changed = False
        self._checked_epoch = epoch
