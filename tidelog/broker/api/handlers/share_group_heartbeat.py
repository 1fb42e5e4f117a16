"""ShareGroupHeartbeat (key 76), version 1: join, stay in and leave a share group (KIP-932).

The API is served if `share.version` is finalized at 1.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.services.share_groups import ShareGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

MEMBER_ID_CHARACTERS_MAX: Final = 36


class ShareGroupHeartbeatHandler:
    """Passes heartbeats to the coordinator, if the client may describe the topics."""

    def __init__(self, groups: ShareGroupService, access: GroupAccess) -> None:
        self._groups = groups
        self._access = access

    async def handle(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest
    ) -> ShareGroupHeartbeatResponse:
        """Return the response when the records of the heartbeat are committed; errors are in the response."""
        try:
            await self._check(context, request)
            client = Client(context.header.client_id or "", context.client_host)
            return await self._groups.heartbeat(client, request)
        except KafkaError as error:
            return ShareGroupHeartbeatResponse(error_code=error.code, error_message=str(error))

    async def _check(self, context: RequestContext, request: ShareGroupHeartbeatRequest) -> None:
        """Raise KafkaError if the API is not enabled, or the client may not send the request."""
        self._access.check_enabled()
        if not 0 < len(request.member_id) <= MEMBER_ID_CHARACTERS_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
        if not await self._access.may_subscribe(context, request.subscribed_topic_names):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            raise KafkaError(code, code.text)
