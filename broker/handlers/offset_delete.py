"""OffsetDelete (key 47), version 0: forget offsets of topics that a group consumes no more (KIP-496)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from broker.groups.service import GroupService
from broker.request_context import RequestContext
from cluster.image import MetadataImage
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class OffsetDeleteHandler:
    """Hands the deletion to the coordinator; what does not exist is refused before."""

    def __init__(self, groups: GroupService, image: Callable[[], MetadataImage]) -> None:
        self._groups = groups
        self._image = image

    async def handle(self, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Answer every partition by itself; an error of the whole group raises KafkaError."""
        image = self._image()
        existing = tuple(_existing(asked, image) for asked in request.topics)
        response = await self._groups.delete_offsets(replace(request, topics=existing))
        answers = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        return replace(response, topics=tuple(_answer(asked, answers) for asked in request.topics))


def _existing(asked: OffsetDeleteRequestTopic, image: MetadataImage) -> OffsetDeleteRequestTopic:
    topic = image.topics_by_name.get(asked.name)
    known = () if topic is None else topic.partitions
    return replace(asked, partitions=tuple(p for p in asked.partitions if p.partition_index in known))


def _answer(
    asked: OffsetDeleteRequestTopic, answers: dict[tuple[str, int], int]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=asked.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index,
                error_code=answers.get(
                    (asked.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                ),
            )
            for partition in asked.partitions
        ),
    )
