"""ListGroups (key 16), versions 0-5: the groups of this node. 4: by state (KIP-518), 5: by type (KIP-848)."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.steps import Steps


class ListGroupsHandler:
    """Gets the groups of the coordinator."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    def handle(self, context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
        """Return all groups that the filters select. Raise KafkaError while groups are being loaded."""
        found = yield from self._groups.list_groups(request.states_filter, request.types_filter)
        return ListGroupsResponse(groups=tuple(found))
