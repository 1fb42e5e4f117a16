"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups with their members and assignments (KIP-848).

- 1: the protocol of each member (KIP-1099)
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.api.handlers.group_describer import GroupDescriber
from tidelog.broker.coordinators.groups.services.consumer_groups import ConsumerGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tidelog.protocol.steps import Steps


class ConsumerGroupDescribeHandler:
    """Gets the description of each group from the coordinator."""

    def __init__(self, groups: ConsumerGroupService, access: GroupAccess) -> None:
        self._describer = GroupDescriber(access, DescribedGroup, groups.describe, _topics)

    def handle(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest
    ) -> Steps[ConsumerGroupDescribeResponse]:
        """Return the result of every distinct group; errors are in the response."""
        groups = yield from self._describer.describe_all(
            context, request.group_ids, request.include_authorized_operations
        )
        return ConsumerGroupDescribeResponse(groups=groups)


def _topics(group: DescribedGroup) -> Iterator[str]:
    """Yield the topics in the assignments of a group."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name
