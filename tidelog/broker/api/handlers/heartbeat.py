"""Heartbeat (key 12), versions 0-4: stay a member and learn of rebalances. 3: static members (KIP-345)."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class HeartbeatHandler:
    """Passes heartbeats to the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    def handle(
        self, context: RequestContext, request: HeartbeatRequest
    ) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
        """Return the response, or an awaitable of it if records must be committed before.

        Errors are in the response.
        """
        return self._groups.heartbeat(request)
