"""ShareGroupDescribe (key 77), version 1: share groups with their members and assignments (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.api.handlers.group_describer import GroupDescriber
from tidelog.broker.coordinators.groups.services.share_groups import ShareGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tidelog.protocol.steps import Steps


class ShareGroupDescribeHandler:
    """Gets the description of each group from the coordinator."""

    def __init__(self, groups: ShareGroupService, access: GroupAccess) -> None:
        self._describer = GroupDescriber(access, DescribedGroup, groups.describe, _topics)

    def handle(
        self, context: RequestContext, request: ShareGroupDescribeRequest
    ) -> Steps[ShareGroupDescribeResponse]:
        """Return the result of every distinct group; errors are in the response."""
        groups = yield from self._describer.describe_all(
            context, request.group_ids, request.include_authorized_operations
        )
        return ShareGroupDescribeResponse(groups=groups)


def _topics(group: DescribedGroup) -> Iterator[str]:
    """Yield the topics in the assignments of a group."""
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name
