"""SyncGroup (key 14), versions 0-5: ask for one's assignment, or as the leader hand in everybody's.

- 3: static members (KIP-345)
- 5: protocol type and name are checked and told (KIP-559)

The reply waits for the leader, so this handler parks.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class SyncGroupHandler:
    """Hands syncs to the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    def handle(self, context: RequestContext, request: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        """Complete when the leader has handed in the assignment; errors are in the reply."""
        return self._groups.sync(request)
