"""DeleteGroups (key 42), versions 0-2: delete groups without members, with their offsets (KIP-229)."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


class DeleteGroupsHandler:
    """Passes the deletion of groups to the coordinator."""

    def __init__(self, groups: GroupService, slices: Slices, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._groups = groups
        self._slices = slices

    async def handle(self, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        """Return the result of every distinct group."""
        names = dict.fromkeys(request.groups_names)
        allowed = await self._slices.complete(
            accessible_names(self._authorizer, context, (AclOperation.DELETE, AclResourceType.GROUP), names)
        )
        denied = tuple(
            DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for name in names
            if name not in allowed
        )
        results = await self._groups.delete_groups([name for name in names if name in allowed])
        return DeleteGroupsResponse(results=(*results, *denied))
