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

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage, TopicImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.steps import Steps

TOPIC_IDS_FROM_VERSION = 10

_Answers = dict[tuple[UUID, int], ErrorCode]


class OffsetCommitHandler:
    """Looks topics up in the metadata and hands the commit to the coordinator."""

    def __init__(self, groups: GroupService, image: Callable[[], MetadataImage], slices: Slices) -> None:
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(self, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Answer every partition by itself; an error of the whole request stands at each that exists."""
        version, image, slices = context.header.api_version, self._image(), self._slices
        accepted = await slices.complete(_accepted(image, request, version))
        failed, committed = ErrorCode.NONE, OffsetCommitResponse()
        if accepted.topics:
            try:
                committed = await self._groups.commit_offsets(accepted, version)
            except KafkaError as error:
                failed = error.code
        return await slices.complete(_response(image, request, version, committed, failed))


def _accepted(image: MetadataImage, request: OffsetCommitRequest, version: int) -> Steps[OffsetCommitRequest]:
    """The request with name and id of each topic, and only with partitions that exist."""
    topics = []
    for asked in request.topics:
        topic = _find(image, asked, version)
        if topic is not None:
            partitions = []
            for each in asked.partitions:
                if each.partition_index in topic.partitions:
                    partitions.append(each)
                yield None
            if partitions:
                topics.append(
                    OffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=tuple(partitions))
                )
        yield None
    return replace(request, topics=tuple(topics))


def _response(
    image: MetadataImage,
    request: OffsetCommitRequest,
    version: int,
    committed: OffsetCommitResponse,
    failed: ErrorCode,
) -> Steps[OffsetCommitResponse]:
    answers: _Answers = {}
    for topic in committed.topics:
        for partition in topic.partitions:
            answers[topic.topic_id, partition.partition_index] = ErrorCode(partition.error_code)
            yield None
    by_id = version >= TOPIC_IDS_FROM_VERSION
    unknown_topic = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for asked in request.topics:
        found = _find(image, asked, version)
        partitions = []
        for each in asked.partitions:
            index, error = each.partition_index, unknown_topic
            if found is not None:
                is_known = index in found.partitions
                error = failed if is_known and failed else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                error = answers.get((found.id, index), error)
            partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
            yield None
        topics.append(
            OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=tuple(partitions))
        )
        yield None
    return OffsetCommitResponse(topics=tuple(topics))


def _find(image: MetadataImage, asked: OffsetCommitRequestTopic, version: int) -> TopicImage | None:
    if version >= TOPIC_IDS_FROM_VERSION:
        return image.topics_by_id.get(asked.topic_id)
    return image.topics_by_name.get(asked.name)
