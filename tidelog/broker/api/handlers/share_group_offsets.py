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

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.services.share_groups import ShareGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
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
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.steps import Steps, map_items, map_steps

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class _CheckedGroup(NamedTuple):
    """A group of a DescribeShareGroupOffsets, and the results of the topics that were removed from it."""

    request: DescribeShareGroupOffsetsRequestGroup
    error: ErrorCode
    denied: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()


class ShareGroupOffsetsHandler:
    """Passes the requests to the coordinator, without the topics that the client may not access."""

    def __init__(self, groups: ShareGroupService, access: GroupAccess) -> None:
        self._groups = groups
        self._access = access

    async def describe(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequest
    ) -> DescribeShareGroupOffsetsResponse:
        """Return the offsets of each group; errors are in the response."""
        complete = self._access.slices.complete
        checked = await complete(map_steps(partial(self._check, context), request.groups))
        allowed = [each.request for each in checked if not each.error]
        described = iter(await self._groups.offset_descriptions.describe(allowed))
        groups = await complete(map_steps(lambda each: self._response(context, each, described), checked))
        return DescribeShareGroupOffsetsResponse(groups=groups)

    def _check(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequestGroup
    ) -> Steps[_CheckedGroup]:
        """Return the request for a group without the topics that the client may not access."""
        error = self._access.error_of_group(context, request.group_id)
        if error or request.topics is None:
            return _CheckedGroup(request, error)
        names = (topic.topic_name for topic in request.topics)
        allowed = yield from self._access.accessible_names(context, AclOperation.DESCRIBE, names)
        visible: list[DescribeShareGroupOffsetsRequestTopic] = []
        denied: list[DescribeShareGroupOffsetsResponseTopic] = []
        for topic in request.topics:
            if topic.topic_name in allowed:
                visible.append(topic)
                yield None
            else:
                partitions = yield from map_items(_denied_partition, topic.partitions)
                denied.append(
                    DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)
                )
        return _CheckedGroup(replace(request, topics=tuple(visible)), error, tuple(denied))

    def _response(
        self,
        context: RequestContext,
        checked: _CheckedGroup,
        described: Iterator[DescribeShareGroupOffsetsResponseGroup],
    ) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
        """Return the result of a group; `described` is at the first group that is described and has none."""
        request, error = checked.request, checked.error
        if error:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=request.group_id, error_code=error, error_message=error.text
            )
        group = next(described)
        if request.topics is not None:
            return replace(group, topics=(*group.topics, *checked.denied))
        names = (topic.topic_name for topic in group.topics)
        allowed = yield from self._access.accessible_names(context, AclOperation.DESCRIBE, names)
        return replace(group, topics=tuple(each for each in group.topics if each.topic_name in allowed))

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
        denied = (topic for topic in request.topics if topic.topic_name not in allowed)
        results = await self._access.slices.complete(map_steps(_denied_alteration, denied))
        return replace(response, responses=(*response.responses, *results))

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
        denied = (name for name in names if name not in allowed)
        results = await self._access.slices.complete(map_items(_denied_deletion, denied))
        return replace(response, responses=(*results, *response.responses))


def _denied_alteration(
    topic: AlterShareGroupOffsetsRequestTopic,
) -> Steps[AlterShareGroupOffsetsResponseTopic]:
    partitions = yield from map_items(
        lambda partition: AlterShareGroupOffsetsResponsePartition(
            partition_index=partition.partition_index, error_code=_DENIED, error_message=_DENIED.text
        ),
        topic.partitions,
    )
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _denied_deletion(name: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=_DENIED, error_message=_DENIED.text
    )


def _denied_partition(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=_DENIED, error_message=_DENIED.text
    )
