"""OffsetCommit (key 8), versions 2-10: commit the offsets of a group.

- 2-4: the request may have a retention time of its own
- 6: leader epochs (KIP-320)
- 7: static members (KIP-345)
- 9: an unknown group is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION
- 10: topics have ids instead of names

Each topic or partition that does not exist gets an error; the others are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from uuid import UUID

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import ALLOW_EVERYTHING, Authorizer
from tidelog.cluster.image import MetadataImage, TopicImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
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

_Errors = dict[tuple[UUID, int], ErrorCode]


class OffsetCommitHandler:
    """Looks up the topics in the metadata and passes the commit to the coordinator."""

    def __init__(
        self,
        groups: GroupService,
        image: Callable[[], MetadataImage],
        slices: Slices,
        authorizer: Authorizer = ALLOW_EVERYTHING,
    ) -> None:
        self._authorizer = authorizer
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(self, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Return the result of every partition; an error of the whole request is at each that exists."""
        version, image, slices = context.header.api_version, self._image(), self._slices
        readable = await slices.complete(self._readable_topics(context, image, request))
        accepted = await slices.complete(_without_unknown_partitions(image, request, version, readable))
        failed, committed = ErrorCode.NONE, OffsetCommitResponse()
        if accepted.topics:
            try:
                committed = await self._groups.commit_offsets(accepted, version)
            except KafkaError as error:
                failed = error.code
        return await slices.complete(_response(image, request, version, committed, failed, readable))

    def _readable_topics(
        self, context: RequestContext, image: MetadataImage, request: OffsetCommitRequest
    ) -> Steps[Container[str]]:
        """Return the names of the requested topics that the client may read."""
        version = context.header.api_version
        names = [_name(image, topic, version) for topic in request.topics]
        read_topic = (AclOperation.READ, AclResourceType.TOPIC)
        return (yield from accessible_names(self._authorizer, context, read_topic, names))


def _without_unknown_partitions(
    image: MetadataImage, request: OffsetCommitRequest, version: int, readable: Container[str]
) -> Steps[OffsetCommitRequest]:
    """Return the request with name and id of each topic, and only with partitions that can be committed."""
    topics = []
    for requested in request.topics:
        topic = _find(image, requested, version)
        if topic is not None and topic.name in readable:
            partitions = []
            for each in requested.partitions:
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
    readable: Container[str],
) -> Steps[OffsetCommitResponse]:
    errors: _Errors = {}
    for topic in committed.topics:
        for partition in topic.partitions:
            errors[topic.topic_id, partition.partition_index] = ErrorCode(partition.error_code)
            yield None
    by_id = version >= TOPIC_IDS_FROM_VERSION
    unknown_topic = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for requested in request.topics:
        found = _find(image, requested, version)
        partitions = []
        for each in requested.partitions:
            index, error = each.partition_index, unknown_topic
            if _name(image, requested, version) not in readable and (found is not None or not by_id):
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif found is not None:
                is_known = index in found.partitions
                error = failed if is_known and failed else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                error = errors.get((found.id, index), error)
            partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
            yield None
        topics.append(
            OffsetCommitResponseTopic(
                name=requested.name, topic_id=requested.topic_id, partitions=tuple(partitions)
            )
        )
        yield None
    return OffsetCommitResponse(topics=tuple(topics))


def _name(image: MetadataImage, requested: OffsetCommitRequestTopic, version: int) -> str:
    """Return the name of a requested topic; "" for an unknown id."""
    if version < TOPIC_IDS_FROM_VERSION:
        return requested.name
    topic = image.topics_by_id.get(requested.topic_id)
    return "" if topic is None else topic.name


def _find(image: MetadataImage, requested: OffsetCommitRequestTopic, version: int) -> TopicImage | None:
    if version >= TOPIC_IDS_FROM_VERSION:
        return image.topics_by_id.get(requested.topic_id)
    return image.topics_by_name.get(requested.name)
