"""DeleteGroups (key 42), versions 0-2: delete groups without members, with their offsets (KIP-229)."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroupsHandler:
    """Passes the deletion of groups to the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    async def handle(self, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        """Return the result of every distinct group."""
        results = await self._groups.delete_groups(dict.fromkeys(request.groups_names))
        return DeleteGroupsResponse(results=results)
