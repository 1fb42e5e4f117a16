"""ShareGroupDescribe (key 77), version 1: share groups with their members and assignments (KIP-932).

A group with a topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED, without members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tidelog.broker.coordinators.groups.share_service import ShareGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tidelog.protocol.steps import Steps, map_steps

_HIDDEN_TOPIC: Final = "The group has described topic(s) that the client is not authorized to describe."


class ShareGroupDescribeHandler:
    """Gets the description of each group from the coordinator."""

    def __init__(
        self, groups: ShareGroupService, authorizer: Authorizer, is_enabled: Callable[[], bool]
    ) -> None:
        self._groups = groups
        self._authorizer = authorizer
        self._is_enabled = is_enabled

    def handle(
        self, context: RequestContext, request: ShareGroupDescribeRequest
    ) -> Steps[ShareGroupDescribeResponse]:
        """Return the result of every distinct group; errors are in the response."""
        groups = yield from map_steps(
            lambda group_id: self._describe(context, group_id, request.include_authorized_operations),
            dict.fromkeys(request.group_ids),
        )
        return ShareGroupDescribeResponse(groups=groups)

    def _describe(
        self, context: RequestContext, group_id: str, wants_operations: bool
    ) -> Steps[DescribedGroup]:
        describe, group_type = AclOperation.DESCRIBE, AclResourceType.GROUP
        if not self._is_enabled():
            return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        if not self._authorizer.is_authorized(context, describe, group_type, group_id):
            return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        group = yield from self._groups.describe(group_id)
        if group.error_code != ErrorCode.NONE:
            return group
        topics = dict.fromkeys(_topics(group))
        allowed = yield from accessible_names(
            self._authorizer, context, (describe, AclResourceType.TOPIC), topics
        )
        if not all(topic in allowed for topic in topics):
            return DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=_HIDDEN_TOPIC,
            )
        if wants_operations:
            operations = self._authorizer.authorized_operations(context, group_type, group_id)
            return replace(group, authorized_operations=operations)
        return group


def _topics(group: DescribedGroup) -> Iterator[str]:
    """Yield the topics in the assignments of a group."""
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name
