"""DescribeGroups (key 15), versions 0-6: groups with their members.

- 3: the operations that the client may perform, if requested (KIP-430)
- 4: static members (KIP-345)
- 6: an unknown group is GROUP_ID_NOT_FOUND instead of a dead group (KIP-1043)
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.protocol.steps import Steps, map_items

OPERATIONS_FROM_VERSION = 3


class DescribeGroupsHandler:
    """Gets the description of each group from the coordinator."""

    def __init__(self, groups: GroupService, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._groups = groups

    def handle(
        self, context: RequestContext, request: DescribeGroupsRequest
    ) -> Steps[DescribeGroupsResponse]:
        """Return the result of every distinct group; errors are in the response."""
        version = context.header.api_version
        wants_operations = request.include_authorized_operations and version >= OPERATIONS_FROM_VERSION
        groups = yield from map_items(
            lambda group_id: self._describe(context, group_id, version, wants_operations),
            dict.fromkeys(request.groups),
        )
        return DescribeGroupsResponse(groups=groups)

    def _describe(
        self, context: RequestContext, group_id: str, version: int, wants_operations: bool
    ) -> DescribedGroup:
        describe, group_type = AclOperation.DESCRIBE, AclResourceType.GROUP
        if not self._authorizer.is_authorized(context, describe, group_type, group_id):
            return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
        group = self._groups.describe_group(group_id, version)
        if wants_operations and group.error_code == ErrorCode.NONE:
            operations = self._authorizer.authorized_operations(context, group_type, group_id)
            return replace(group, authorized_operations=operations)
        return group
