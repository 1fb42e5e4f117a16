"""ListGroups (key 16), versions 0-5: the groups of this node. 4: by state (KIP-518), 5: by type (KIP-848)."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names, may_access_cluster
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.steps import Steps


class ListGroupsHandler:
    """Gets the groups of the coordinator."""

    def __init__(self, groups: GroupService, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._groups = groups

    def handle(self, context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
        """Return all groups that the filters select. Raise KafkaError while groups are being loaded."""
        groups = yield from self._groups.list_groups(request.states_filter, request.types_filter)
        if not may_access_cluster(self._authorizer, context, AclOperation.DESCRIBE, logs_denial=False):
            allowed = yield from accessible_names(
                self._authorizer,
                context,
                (AclOperation.DESCRIBE, AclResourceType.GROUP),
                [group.group_id for group in groups],
                logs_denial=False,
            )
            groups = [group for group in groups if group.group_id in allowed]
        return ListGroupsResponse(groups=tuple(groups))
