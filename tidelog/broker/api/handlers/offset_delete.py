"""OffsetDelete (key 47), version 0: delete the offsets of topics that a group does not consume (KIP-496)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidelog.broker.api.handlers.readable_topics import ReadableTopics, TopicAccess
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.protocol.steps import Steps, map_items, map_steps


class OffsetDeleteHandler:
    """Passes the deletion of partitions that exist to the coordinator."""

    def __init__(self, groups: GroupService, topics: TopicAccess) -> None:
        self._groups = groups
        self._topics = topics

    async def handle(self, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Return the result of every partition; an error of the whole group raises KafkaError."""
        image, slices = self._topics.image(), self._topics.slices
        names = [topic.name for topic in request.topics]
        readable = await slices.complete(self._topics.readable(context, image, names))
        existing = await slices.complete(
            map_steps(partial(_without_unknown_partitions, readable), request.topics)
        )
        response = await self._groups.delete_offsets(replace(request, topics=existing))
        return await slices.complete(_response(request, response, readable))


def _without_unknown_partitions(
    readable: ReadableTopics, requested: OffsetDeleteRequestTopic
) -> Steps[OffsetDeleteRequestTopic]:
    """Return the topic with only the partitions that exist and that the client may read."""
    known = readable.partitions(requested.name)
    partitions = []
    for partition in requested.partitions:
        if partition.partition_index in known:
            partitions.append(partition)
        yield None
    return replace(requested, partitions=tuple(partitions))


def _response(
    request: OffsetDeleteRequest, response: OffsetDeleteResponse, readable: ReadableTopics
) -> Steps[OffsetDeleteResponse]:
    """Return the response with a result for every requested partition."""
    results = yield from readable.results(
        request.topics,
        response.topics,
        lambda index, error: OffsetDeleteResponsePartition(partition_index=index, error_code=error),
    )
    topics = yield from map_items(
        lambda result: OffsetDeleteResponseTopic(name=result[0], partitions=result[1]), results
    )
    return replace(response, topics=topics)
