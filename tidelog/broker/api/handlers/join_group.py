"""JoinGroup (key 11), versions 0-9: become or stay a member of a group.

- 0: no rebalance timeout; the session timeout is used
- 4: a member without an id gets one and must join again with it (KIP-394)
- 5: static members (KIP-345)
- 7: the response has the protocol type; the protocol name of an error is null instead of empty (KIP-559)
- 8: a reason, which is logged (KIP-800)
- 9: the response may let a leader skip the assignment (KIP-814)

The response waits for other members, so this handler parks.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULLABLE_PROTOCOL_NAME_FROM_VERSION = 7


class JoinGroupHandler:
    """Passes joins to the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    async def handle(self, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
        """Return the response when the rebalance completes; errors are in the response."""
        version = context.header.api_version
        if version == 0:
            request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
        client = Client(context.header.client_id or "", context.client_host)
        joining = self._groups.join(client, request, version)
        # The group has its own references. This coroutine may wait for minutes.
        del request
        response = await joining
        if not response.protocol_name:
            no_name = None if version >= NULLABLE_PROTOCOL_NAME_FROM_VERSION else ""
            return replace(response, protocol_name=no_name)
        return response
