"""The task of a follower: the local disk may drop segments that are in remote storage."""

from __future__ import annotations

from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.remote_state import update_copied_offset
from tidelog.remote.tasks.replica import Role


class FollowerTask:
    """Updates the highest offset in remote storage of a follower's log each time it runs."""

    def __init__(self, context: RemoteLogContext, role: Role) -> None:
        self._context = context
        self._role = role

    async def run(self) -> None:
        """Update the offset once. Errors: RemoteMetadataError."""
        if self._role.is_current and self._role.replica.log.remote_log_enabled:
            update_copied_offset(self._context, self._role.replica)
