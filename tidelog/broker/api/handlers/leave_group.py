"""LeaveGroup (key 13), versions 0-5: members leave; since 3 several, also by instance id (KIP-345)."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


class LeaveGroupHandler:
    """Passes leaves to the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    async def handle(self, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Return the result of every member; errors of the whole request raise KafkaError."""
        return await self._groups.leave(request, context.header.api_version)
