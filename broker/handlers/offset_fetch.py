"""OffsetFetch (key 9), versions 1-10: how far a group has consumed.

- 1: errors of the whole group stand at every partition; later they have a field of their own
- 2: no topics at all means all that is committed
- 5: leader epochs (KIP-320)
- 7: require_stable (KIP-447)
- 8: several groups at once (KIP-709)
- 10: topics have ids instead of names

A name stands for the topic that has it now: what was committed for an earlier topic of that name does not
count, whatever the version. Its offsets go when a topic is deleted, but not where no coordinator could write
just then, and a reader of the next topic of that name would begin in the middle. Kafka tells those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from broker.groups.offset_commands import ids_differ
from broker.groups.offset_fetch import NO_OFFSET
from broker.groups.service import GroupService
from broker.request_context import RequestContext
from cluster.image import MetadataImage
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
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
from protocol.schema import ZERO_UUID

GROUP_ERROR_FROM_VERSION = 2
GROUPS_FROM_VERSION = 8
TOPIC_IDS_FROM_VERSION = 10


class OffsetFetchHandler:
    """Asks the coordinator, one group like many."""

    def __init__(self, groups: GroupService, image: Callable[[], MetadataImage]) -> None:
        self._groups = groups
        self._image = image

    async def handle(self, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Answer every group by itself, one that is named twice once; errors are in the reply."""
        version = context.header.api_version
        if version < GROUPS_FROM_VERSION:
            group = _named_once(_as_group(request))
            answer = await self._fetch_by_name(group, request.require_stable)
            return _as_single(group, answer, version)
        answers = await asyncio.gather(
            *(
                self._fetch(_named_once(group), request.require_stable, version)
                for group in dict.fromkeys(request.groups)
            )
        )
        return OffsetFetchResponse(groups=tuple(answers))

    async def _fetch(
        self, group: OffsetFetchRequestGroup, require_stable: bool, version: int
    ) -> OffsetFetchResponseGroup:
        if version < TOPIC_IDS_FROM_VERSION:
            return await self._fetch_by_name(group, require_stable)
        image = self._image()
        if group.topics is None:
            answer = await self._groups.fetch_offsets(group, require_stable)
            return replace(answer, topics=_with_ids(answer.topics, image))
        known = tuple(
            replace(topic, name=image.topics_by_id[topic.topic_id].name)
            for topic in group.topics
            if topic.topic_id in image.topics_by_id
        )
        answer = await self._groups.fetch_offsets(replace(group, topics=known), require_stable)
        if answer.error_code != ErrorCode.NONE:
            return answer
        found = iter(answer.topics)
        topics = tuple(
            next(found) if topic.topic_id in image.topics_by_id else _unknown(topic) for topic in group.topics
        )
        return replace(answer, topics=topics)

    async def _fetch_by_name(
        self, group: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        image = self._image()
        if group.topics is not None:
            asked = tuple(replace(topic, topic_id=_current_id(topic.name, image)) for topic in group.topics)
            return await self._groups.fetch_offsets(replace(group, topics=asked), require_stable)
        answer = await self._groups.fetch_offsets(group, require_stable)
        current = tuple(
            topic for topic in answer.topics if not ids_differ(topic.topic_id, _current_id(topic.name, image))
        )
        return replace(answer, topics=current)


def _current_id(name: str, image: MetadataImage) -> UUID:
    topic = image.topics_by_name.get(name)
    return ZERO_UUID if topic is None else topic.id


def _with_ids(
    topics: tuple[OffsetFetchResponseTopics, ...], image: MetadataImage
) -> tuple[OffsetFetchResponseTopics, ...]:
    """Offsets of old commits lack the topic's id; a topic that is gone is left out."""
    with_ids = []
    for topic in topics:
        if topic.topic_id != ZERO_UUID:
            with_ids.append(topic)
        elif topic.name in image.topics_by_name:
            with_ids.append(replace(topic, topic_id=image.topics_by_name[topic.name].id))
    return tuple(with_ids)


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for index in topic.partition_indexes
        ),
    )


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of versions 1-7 in the form of the later ones."""
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _named_once(group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    """Each partition of a topic once: the response has kilobytes of metadata for four bytes of an index."""
    if group.topics is None:
        return group
    topics = tuple(
        replace(topic, partition_indexes=tuple(dict.fromkeys(topic.partition_indexes)))
        for topic in dict.fromkeys(group.topics)
    )
    return replace(group, topics=topics)


def _as_single(
    group: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    """An answer in the form of versions 1-7."""
    if answer.error_code != ErrorCode.NONE:
        if version >= GROUP_ERROR_FROM_VERSION:
            return OffsetFetchResponse(error_code=answer.error_code)
        return OffsetFetchResponse(
            topics=tuple(_failed(topic, answer.error_code) for topic in group.topics or ())
        )
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in answer.topics
        )
    )


def _failed(topic: OffsetFetchRequestTopics, error_code: int) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=NO_OFFSET, error_code=error_code
            )
            for index in topic.partition_indexes
        ),
    )
