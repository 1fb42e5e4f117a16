"""OffsetCommit (key 8), versions 2-10: remember how far a group has consumed.

- 2-4: the request may say how long the offsets are kept
- 6: leader epochs (KIP-320)
- 7: static members (KIP-345)
- 9: an unknown group is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION
- 10: topics have ids instead of names

Topics and partitions that do not exist are refused one by one; the others are committed together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from broker.groups.service import GroupService
from broker.request_context import RequestContext
from cluster.image import MetadataImage, TopicImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_FROM_VERSION = 10

_Answers = dict[tuple[UUID, int], ErrorCode]


class OffsetCommitHandler:
    """Looks topics up in the metadata and hands the commit to the coordinator."""

    def __init__(self, groups: GroupService, image: Callable[[], MetadataImage]) -> None:
        self._groups = groups
        self._image = image

    async def handle(self, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Answer every partition by itself; an error of the whole request stands at each that exists."""
        version = context.header.api_version
        image = self._image()
        found = [_find(image, topic, version) for topic in request.topics]
        accepted = tuple(
            _existing(asked, topic)
            for asked, topic in zip(request.topics, found, strict=True)
            if topic is not None
        )
        accepted = tuple(topic for topic in accepted if topic.partitions)
        answers = await self._commit(replace(request, topics=accepted), version) if accepted else {}
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if version >= TOPIC_IDS_FROM_VERSION
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return OffsetCommitResponse(
            topics=tuple(
                _answer(asked, topic, answers, unknown)
                for asked, topic in zip(request.topics, found, strict=True)
            )
        )

    async def _commit(self, request: OffsetCommitRequest, version: int) -> _Answers:
        try:
            response = await self._groups.commit_offsets(request, version)
        except KafkaError as error:
            return {
                (topic.topic_id, partition.partition_index): error.code
                for topic in request.topics
                for partition in topic.partitions
            }
        return {
            (topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }


def _find(image: MetadataImage, asked: OffsetCommitRequestTopic, version: int) -> TopicImage | None:
    if version >= TOPIC_IDS_FROM_VERSION:
        return image.topics_by_id.get(asked.topic_id)
    return image.topics_by_name.get(asked.name)


def _existing(asked: OffsetCommitRequestTopic, topic: TopicImage) -> OffsetCommitRequestTopic:
    """What was asked, with name and id, and only partitions that exist."""
    return OffsetCommitRequestTopic(
        name=topic.name,
        topic_id=topic.id,
        partitions=tuple(p for p in asked.partitions if p.partition_index in topic.partitions),
    )


def _answer(
    asked: OffsetCommitRequestTopic, topic: TopicImage | None, answers: _Answers, unknown_topic: ErrorCode
) -> OffsetCommitResponseTopic:
    partitions = []
    for partition in asked.partitions:
        error = unknown_topic
        if topic is not None:
            key = (topic.id, partition.partition_index)
            error = answers.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions.append(
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
        )
    return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=tuple(partitions))
