"""The start offsets of share groups (KIP-932), for administrators.

| key | API | versions |
|---|---|---|
| 90 | DescribeShareGroupOffsets | 0-1; 1: the lag (KIP-1226) |
| 91 | AlterShareGroupOffsets | 0 |
| 92 | DeleteShareGroupOffsets | 0 |

Offsets are changed only in groups without members. A topic that the client may not access is
TOPIC_AUTHORIZATION_FAILED; without a list of topics it is left out.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.services.share_groups import ShareGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ShareGroupOffsetsHandler:
    """Passes the requests to the coordinator, without the topics that the client may not access."""

    def __init__(self, groups: ShareGroupService, access: GroupAccess) -> None:
        self._groups = groups
        self._access = access

    async def describe(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequest
    ) -> DescribeShareGroupOffsetsResponse:
        """Return the offsets of each group; errors are in the response."""
        groups = await bounded_gather(self._describe_group(context, group) for group in request.groups)
        return DescribeShareGroupOffsetsResponse(groups=tuple(groups))

    async def _describe_group(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        error = self._access.error_of_group(context, request.group_id)
        if error is not ErrorCode.NONE:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=request.group_id, error_code=error, error_message=error.text
            )
        if request.topics is None:
            group = await self._groups.describe_offsets(request)
            names = [topic.topic_name for topic in group.topics]
            allowed = await self._access.accessible_topics(context, AclOperation.DESCRIBE, names)
            return replace(group, topics=tuple(each for each in group.topics if each.topic_name in allowed))
        names = [topic.topic_name for topic in request.topics]
        allowed = await self._access.accessible_topics(context, AclOperation.DESCRIBE, names)
        denied = tuple(
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                partitions=tuple(
                    DescribeShareGroupOffsetsResponsePartition(
                        partition_index=index, error_code=_DENIED, error_message=_DENIED.text
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.topics
            if topic.topic_name not in allowed
        )
        visible = tuple(topic for topic in request.topics if topic.topic_name in allowed)
        group = await self._groups.describe_offsets(replace(request, topics=visible))
        return replace(group, topics=(*group.topics, *denied))

    async def alter(
        self, context: RequestContext, request: AlterShareGroupOffsetsRequest
    ) -> AlterShareGroupOffsetsResponse:
        """Set start offsets; errors are in the response."""
        names = [topic.topic_name for topic in request.topics]
        allowed = await self._access.accessible_topics(context, AclOperation.READ, names)
        visible = tuple(topic for topic in request.topics if topic.topic_name in allowed)
        try:
            self._access.check_enabled()
            response = await self._groups.alter_offsets(replace(request, topics=visible))
        except KafkaError as error:
            return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=str(error))
        denied = tuple(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                partitions=tuple(
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_DENIED,
                        error_message=_DENIED.text,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
            if topic.topic_name not in allowed
        )
        return replace(response, responses=(*response.responses, *denied))

    async def delete(
        self, context: RequestContext, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        """Delete the offsets of topics; errors are in the response."""
        names = [topic.topic_name for topic in request.topics]
        allowed = await self._access.accessible_topics(context, AclOperation.READ, names)
        visible = tuple(topic for topic in request.topics if topic.topic_name in allowed)
        try:
            self._access.check_enabled()
            response = await self._groups.delete_offsets(replace(request, topics=visible))
        except KafkaError as error:
            return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=str(error))
        denied = tuple(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, error_code=_DENIED, error_message=_DENIED.text
            )
            for name in names
            if name not in allowed
        )
        return replace(response, responses=(*denied, *response.responses))
