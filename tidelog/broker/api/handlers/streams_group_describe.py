"""StreamsGroupDescribe (key 89), version 0: streams groups with topology, members and tasks (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.api.handlers.group_describer import GroupDescriber
from tidelog.broker.coordinators.groups.services.streams_groups import StreamsGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from tidelog.protocol.steps import Steps

_HIDDEN_TOPIC: Final = "The described group uses topics that the client is not authorized to describe."


class StreamsGroupDescribeHandler:
    """Gets the description of each group from the coordinator."""

    def __init__(self, groups: StreamsGroupService, access: GroupAccess) -> None:
        self._describer = GroupDescriber(access, DescribedGroup, groups.describe, _topics, _HIDDEN_TOPIC)

    def handle(
        self, context: RequestContext, request: StreamsGroupDescribeRequest
    ) -> Steps[StreamsGroupDescribeResponse]:
        """Return the result of every distinct group; errors are in the response."""
        groups = yield from self._describer.describe_all(
            context, request.group_ids, request.include_authorized_operations
        )
        return StreamsGroupDescribeResponse(groups=groups)


def _topics(group: DescribedGroup) -> Iterator[str]:
    """Yield the topics of the topology of a group."""
    for subtopology in () if group.topology is None else group.topology.subtopologies or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield topic.name
