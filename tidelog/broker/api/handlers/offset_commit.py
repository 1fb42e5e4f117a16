"""OffsetCommit (key 8), versions 2-10: commit the offsets of a group.

- 2-4: the request may have a retention time of its own
- 6: leader epochs (KIP-320)
- 7: static members (KIP-345)
- 9: an unknown group is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION
- 10: topics have ids instead of names

Each topic or partition that does not exist gets an error; the others are committed together.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeAlias
from uuid import UUID

from tidelog.broker.api.handlers.readable_topics import ReadableTopics, TopicAccess
from tidelog.broker.coordinators.groups.services.offset_commits import OffsetCommitService
from tidelog.broker.network.request_context import RequestContext
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

_Errors = dict[tuple[UUID, int], ErrorCode]
_FutureResponse: TypeAlias = "asyncio.Future[OffsetCommitResponse | Steps[OffsetCommitResponse]]"


class OffsetCommitHandler:
    """Looks up the topics in the metadata and passes the commit to the coordinator."""

    def __init__(self, commits: OffsetCommitService, topics: TopicAccess) -> None:
        self._commits = commits
        self._topics = topics

    def handle(
        self, context: RequestContext, request: OffsetCommitRequest
    ) -> Steps[OffsetCommitResponse | _FutureResponse]:
        """Return the result of every partition; an error of the whole request is at each that exists.

        A commit waits for the log without a task: many commits are appended together.
        """
        version, image = context.header.api_version, self._topics.image()
        names = (_name(image, topic, version) for topic in request.topics)
        readable = yield from self._topics.readable(context, image, names)
        topics, is_complete = yield from _existing_topics(image, request, version, readable)
        results = partial(_response, image, request, version, readable)
        if not topics:
            return (yield from results(OffsetCommitResponse(), ErrorCode.NONE))
        prepared = yield from self._commits.prepare(request, topics)
        response = prepared.response
        if not is_complete:
            response = yield from results(prepared.response, ErrorCode.NONE)
        committed: _FutureResponse = asyncio.get_running_loop().create_future()

        def on_completed(error: ErrorCode) -> None:
            if not committed.done():
                committed.set_result(
                    response if error is ErrorCode.NONE else results(OffsetCommitResponse(), error)
                )

        try:
            self._commits.commit(request, version, prepared.writes, on_completed)
        except KafkaError as error:
            return (yield from results(OffsetCommitResponse(), error.code))
        self._topics.slices.release_later(topics)
        return committed


def _existing_topics(
    image: MetadataImage, request: OffsetCommitRequest, version: int, readable: ReadableTopics
) -> Steps[tuple[list[OffsetCommitRequestTopic], bool]]:
    """Return the topics with their names and ids, and only with partitions that can be committed.

    Return also whether the topics are all that were requested, with all of their partitions.
    """
    topics, is_complete = [], True
    for requested in request.topics:
        topic, partitions = _find(image, requested, version), []
        if topic is not None:
            known = readable.partitions(topic.name)
            for each in requested.partitions:
                if each.partition_index in known:
                    partitions.append(each)
                yield None
            if partitions:
                topics.append(
                    OffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=tuple(partitions))
                )
        is_complete &= 0 < len(partitions) == len(requested.partitions)
        yield None
    return topics, is_complete


def _response(
    image: MetadataImage,
    request: OffsetCommitRequest,
    version: int,
    readable: ReadableTopics,
    committed: OffsetCommitResponse,
    coordinator_error: ErrorCode,
) -> Steps[OffsetCommitResponse]:
    """Return a result for every requested partition: that of the commit, or an error."""
    errors: _Errors = {}
    for topic in committed.topics:
        for partition in topic.partitions:
            errors[topic.topic_id, partition.partition_index] = ErrorCode(partition.error_code)
            yield None
    topics = []
    for requested in request.topics:
        name, topic_image = _name(image, requested, version), _find(image, requested, version)
        has_unknown_id = topic_image is None and version >= TOPIC_IDS_FROM_VERSION
        partitions = []
        for each in requested.partitions:
            index = each.partition_index
            error = (
                ErrorCode.UNKNOWN_TOPIC_ID
                if has_unknown_id
                else readable.error(name, index, coordinator_error)
            )
            if topic_image is not None:
                error = errors.get((topic_image.id, index), error)
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
