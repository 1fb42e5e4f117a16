"""OffsetDelete (key 47), version 0: forget offsets of topics that a group consumes no more (KIP-496)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.protocol.steps import Steps, each_in_steps


class OffsetDeleteHandler:
    """Hands the deletion to the coordinator; what does not exist is refused before."""

    def __init__(self, groups: GroupService, image: Callable[[], MetadataImage], slices: Slices) -> None:
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(self, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Answer every partition by itself; an error of the whole group raises KafkaError."""
        image, slices = self._image(), self._slices
        existing = await slices.complete(each_in_steps(partial(_existing, image), request.topics))
        response = await self._groups.delete_offsets(replace(request, topics=existing))
        return await slices.complete(_response(request, response))


def _existing(image: MetadataImage, asked: OffsetDeleteRequestTopic) -> Steps[OffsetDeleteRequestTopic]:
    topic = image.topics_by_name.get(asked.name)
    known = () if topic is None else topic.partitions
    partitions = []
    for partition in asked.partitions:
        if partition.partition_index in known:
            partitions.append(partition)
        yield None
    return replace(asked, partitions=tuple(partitions))


def _response(request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> Steps[OffsetDeleteResponse]:
    answers: dict[tuple[str, int], int] = {}
    for deleted in response.topics:
        for partition in deleted.partitions:
            answers[deleted.name, partition.partition_index] = partition.error_code
            yield None
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for asked in request.topics:
        partitions = []
        for each in asked.partitions:
            error = answers.get((asked.name, each.partition_index), unknown)
            partitions.append(
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            )
            yield None
        topics.append(OffsetDeleteResponseTopic(name=asked.name, partitions=tuple(partitions)))
    return replace(response, topics=tuple(topics))
