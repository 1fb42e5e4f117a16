"""The task of a follower: what is remote may leave its disk as well."""

from __future__ import annotations

from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.remote_state import note_copied_offset
from tidelog.remote.tasks.replica import Role


class FollowerTask:
    """Tells the log of a follower how far it is in remote storage, each time it runs."""

    def __init__(self, context: RemoteLogContext, role: Role) -> None:
        self._context = context
        self._role = role

    async def run(self) -> None:
        """Look once. Errors: RemoteMetadataError."""
        if self._role.is_current and self._role.replica.log.remote_log_enabled:
            note_copied_offset(self._context, self._role.replica)
