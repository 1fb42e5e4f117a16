"""OffsetFetch (key 9), versions 1-10: the committed offsets of groups.

- 1: errors of the whole group are at every partition; later they have a field of their own
- 2: no topics means all committed offsets
- 5: leader epochs (KIP-320)
- 7: require_stable (KIP-447)
- 8: several groups at once (KIP-709)
- 10: topics have ids instead of names

A name stands for the topic that has it now: offsets that were committed for an earlier topic of that name do
not count in any version. The offsets of a deleted topic are deleted, but not if no coordinator can write at
that time. Then a consumer of the next topic of that name would start in the middle. Kafka returns those
offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.coordinators.groups.offset_commands import ids_differ
from tidelog.broker.coordinators.groups.offset_fetch import NO_OFFSET
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps, map_items, map_steps, release_in_steps

GROUP_ERROR_FROM_VERSION = 2
GROUPS_FROM_VERSION = 8
TOPIC_IDS_FROM_VERSION = 10

_DESCRIBE_GROUP: Final = (AclOperation.DESCRIBE, AclResourceType.GROUP)
_DESCRIBE_TOPIC: Final = (AclOperation.DESCRIBE, AclResourceType.TOPIC)


class _GroupAccess(NamedTuple):
    """A requested group: what the client may fetch of it, None for nothing, and the denied topics."""

    requested: OffsetFetchRequestGroup
    allowed: OffsetFetchRequestGroup | None
    denied: tuple[OffsetFetchRequestTopics, ...]


class OffsetFetchHandler:
    """Passes the request to the coordinator, in the same form for one group and for many."""

    def __init__(self, groups: GroupService, topics: TopicAccess) -> None:
        self._groups = groups
        self._topics = topics

    async def handle(
        self, context: RequestContext, request: OffsetFetchRequest
    ) -> Steps[OffsetFetchResponse]:
        """Return the steps that compute the result of every distinct group; errors are in the response.

        A small request may have a large response, so the dispatcher limits how many are computed at the same
        time.
        """
        version, image, slices = context.header.api_version, self._topics.image(), self._topics.slices
        requested_groups: Sequence[OffsetFetchRequestGroup] = request.groups
        if version < GROUPS_FROM_VERSION:
            requested_groups = (await slices.complete(_as_group(request)),)
        by_id = version >= TOPIC_IDS_FROM_VERSION
        groups = await slices.complete(_each_once(requested_groups))
        access = await slices.complete(map_steps(partial(self._access, context, image, by_id), groups))
        allowed = [each.allowed for each in access if each.allowed is not None]
        requested = await slices.complete(map_steps(partial(_with_topics, image, by_id), allowed))
        fetching = await self._groups.fetch_offsets(requested, request.require_stable)

        def respond() -> Steps[OffsetFetchResponse]:
            fetched = yield from fetching
            if version < GROUPS_FROM_VERSION:
                results = yield from map_steps(lambda result: _current(result, image), fetched)
            else:
                results = yield from _results(allowed, fetched, image, by_id)
            responses = yield from self._with_denied(context, access, results)
            slices.release_later(groups, access, requested, fetched, results)
            if version < GROUPS_FROM_VERSION:
                return (yield from _as_single(groups[0], responses[0], version))
            return OffsetFetchResponse(groups=responses)

        return respond()

    def _access(
        self, context: RequestContext, image: MetadataImage, by_id: bool, group: OffsetFetchRequestGroup
    ) -> Steps[_GroupAccess]:
        """Return the part of a requested group that the client may describe."""
        authorizer = self._topics.authorizer
        if not authorizer.is_authorized(context, *_DESCRIBE_GROUP, group.group_id):
            return _GroupAccess(group, None, ())
        if group.topics is None or not authorizer.is_enabled:
            return _GroupAccess(group, group, ())
        allowed: list[OffsetFetchRequestTopics] = []
        denied: list[OffsetFetchRequestTopics] = []
        for topic in group.topics:
            yield None
            known_topic = image.topics_by_id.get(topic.topic_id) if by_id else None
            name = None if by_id and known_topic is None else known_topic.name if known_topic else topic.name
            is_allowed = name is None or authorizer.is_authorized(context, *_DESCRIBE_TOPIC, name)
            (allowed if is_allowed else denied).append(topic)
        return _GroupAccess(group, replace(group, topics=tuple(allowed)), tuple(denied))

    def _with_denied(
        self,
        context: RequestContext,
        access: Sequence[_GroupAccess],
        results: Iterable[OffsetFetchResponseGroup],
    ) -> Steps[tuple[OffsetFetchResponseGroup, ...]]:
        """Return the results of all requested groups: `results`, and errors for what was denied."""
        remaining = iter(results)
        responses = []
        for group in access:
            yield None
            if group.allowed is None:
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
                responses.append(OffsetFetchResponseGroup(group_id=group.requested.group_id, error_code=code))
                continue
            result = next(remaining)
            if group.requested.topics is None:
                names = [topic.name for topic in result.topics]
                visible = yield from accessible_names(
                    self._topics.authorizer, context, _DESCRIBE_TOPIC, names
                )
                topics = tuple(topic for topic in result.topics if topic.name in visible)
                result = replace(result, topics=topics)
            elif group.denied and result.error_code == ErrorCode.NONE:
                failed = partial(_failed_topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                denied = yield from map_steps(failed, group.denied)
                result = replace(result, topics=(*result.topics, *denied))
            responses.append(result)
        return tuple(responses)


def _with_topics(
    image: MetadataImage, by_id: bool, group: OffsetFetchRequestGroup
) -> Steps[OffsetFetchRequestGroup]:
    """Return the group with name and id of every topic; of topics by id only those that exist."""
    if group.topics is None:
        return group
    topics = []
    for topic in group.topics:
        if not by_id:
            topics.append(replace(topic, topic_id=_current_id(topic.name, image)))
        elif topic.topic_id in image.topics_by_id:
            topics.append(replace(topic, name=image.topics_by_id[topic.topic_id].name))
        yield None
    return replace(group, topics=tuple(topics))


def _results(
    groups: Sequence[OffsetFetchRequestGroup],
    group_results: Sequence[OffsetFetchResponseGroup],
    image: MetadataImage,
    by_id: bool,
) -> Steps[tuple[OffsetFetchResponseGroup, ...]]:
    results = []
    for group, result in zip(groups, group_results, strict=True):
        if group.topics is None:
            results.append((yield from (_with_ids if by_id else _current)(result, image)))
        elif by_id and result.error_code == ErrorCode.NONE:
            results.append((yield from _with_unknown(group.topics, result, image)))
        else:
            results.append(result)
        yield None
    return tuple(results)


def _with_unknown(
    requested: Iterable[OffsetFetchRequestTopics], result: OffsetFetchResponseGroup, image: MetadataImage
) -> Steps[OffsetFetchResponseGroup]:
    """Return the result with an error for each topic whose id is unknown."""
    known = iter(result.topics)
    topics = []
    for topic in requested:
        topics.append(
            next(known)
            if topic.topic_id in image.topics_by_id
            else (yield from _failed_topic(ErrorCode.UNKNOWN_TOPIC_ID, topic))
        )
        yield None
    return replace(result, topics=tuple(topics))


def _current(result: OffsetFetchResponseGroup, image: MetadataImage) -> Steps[OffsetFetchResponseGroup]:
    """Return the result without topics whose name belongs to another topic now."""
    topics = []
    for topic in result.topics:
        if not ids_differ(topic.topic_id, _current_id(topic.name, image)):
            topics.append(topic)
        yield None
    return replace(result, topics=tuple(topics))


def _current_id(name: str, image: MetadataImage) -> UUID:
    topic = image.topics_by_name.get(name)
    return ZERO_UUID if topic is None else topic.id


def _with_ids(result: OffsetFetchResponseGroup, image: MetadataImage) -> Steps[OffsetFetchResponseGroup]:
    """Return the result with topic ids. Offsets of old commits lack them; a deleted topic is omitted."""
    topics = []
    for topic in result.topics:
        if topic.topic_id != ZERO_UUID:
            topics.append(topic)
        elif topic.name in image.topics_by_name:
            topics.append(replace(topic, topic_id=image.topics_by_name[topic.name].id))
        yield None
    return replace(result, topics=tuple(topics))


def _failed_topic(code: ErrorCode, topic: OffsetFetchRequestTopics) -> Steps[OffsetFetchResponseTopics]:
    partitions = yield from map_items(
        lambda index: OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=code
        ),
        topic.partition_indexes,
    )
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _as_group(request: OffsetFetchRequest) -> Steps[OffsetFetchRequestGroup]:
    """Convert a request of versions 1-7 to the form of later ones."""
    topics = None
    if request.topics is not None:
        topics = yield from map_items(
            lambda topic: OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            ),
            request.topics,
        )
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _each_once(groups: Iterable[OffsetFetchRequestGroup]) -> Steps[tuple[OffsetFetchRequestGroup, ...]]:
    """Return the groups with each partition once: the response may have kilobytes of metadata for each.

    A repeated group or topic is omitted if no partition of it remains. Groups and topics are not compared as
    a whole, because the hash of a group with very many partitions takes long.
    """
    found = []
    requested: dict[str, _RequestedOffsets] = {}
    for group in groups:
        is_new = group.group_id not in requested
        offsets = requested.setdefault(group.group_id, _RequestedOffsets())
        if group.topics is None:
            if not offsets.is_all:
                offsets.is_all = True
                found.append(group)
        else:
            topics = yield from offsets.added(group.topics)
            if topics or is_new:
                found.append(replace(group, topics=topics))
        yield None
    unused = list(requested.values())
    requested.clear()
    yield from release_in_steps(unused)
    return tuple(found)


class _RequestedOffsets:
    """What a request has requested of one group so far."""

    def __init__(self) -> None:
        self.is_all = False
        """Whether all topics of the group are requested."""
        self._partitions: dict[tuple[str, UUID], set[int]] = {}

    def added(
        self, topics: Iterable[OffsetFetchRequestTopics]
    ) -> Steps[tuple[OffsetFetchRequestTopics, ...]]:
        """Add `topics`, and return them without the partitions that were requested before."""
        found = []
        for topic in topics:
            key = (topic.name, topic.topic_id)
            is_new = key not in self._partitions
            known = self._partitions.setdefault(key, set())
            added = []
            for index in topic.partition_indexes:
                if index not in known:
                    known.add(index)
                    added.append(index)
                yield None
            if added or is_new:
                found.append(replace(topic, partition_indexes=tuple(added)))
            yield None
        return tuple(found)


def _as_single(
    group: OffsetFetchRequestGroup, result: OffsetFetchResponseGroup, version: int
) -> Steps[OffsetFetchResponse]:
    """Convert a result to the form of versions 1-7."""
    if result.error_code != ErrorCode.NONE:
        if version >= GROUP_ERROR_FROM_VERSION:
            return OffsetFetchResponse(error_code=result.error_code)
        failed = yield from map_steps(partial(_failed, result.error_code), group.topics or ())
        return OffsetFetchResponse(topics=failed)
    return OffsetFetchResponse(topics=(yield from map_steps(_as_single_topic, result.topics)))


def _as_single_topic(topic: OffsetFetchResponseTopics) -> Steps[OffsetFetchResponseTopic]:
    partitions = yield from map_items(
        lambda partition: OffsetFetchResponsePartition(
            partition_index=partition.partition_index,
            committed_offset=partition.committed_offset,
            committed_leader_epoch=partition.committed_leader_epoch,
            metadata=partition.metadata,
            error_code=partition.error_code,
        ),
        topic.partitions,
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _failed(error_code: int, topic: OffsetFetchRequestTopics) -> Steps[OffsetFetchResponseTopic]:
    partitions = yield from map_items(
        lambda index: OffsetFetchResponsePartition(
            partition_index=index, committed_offset=NO_OFFSET, error_code=error_code
        ),
        topic.partition_indexes,
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
