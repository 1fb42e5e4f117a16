"""SyncGroup (key 14), versions 0-5: get the own assignment, or as the leader send all assignments.

- 3: static members (KIP-345)
- 5: protocol type and name are checked and returned (KIP-559)

The response waits for the leader, so this handler parks.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class SyncGroupHandler:
    """Passes syncs to the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    def handle(self, context: RequestContext, request: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        """Return a future that completes with the leader's assignment; errors are in the response."""
        return self._groups.sync(request)
