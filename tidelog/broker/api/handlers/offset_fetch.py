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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from tidelog.broker.coordinators.groups.offset_commands import ids_differ
from tidelog.broker.coordinators.groups.offset_fetch import NO_OFFSET
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage
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
from tidelog.protocol.steps import Steps, distinct, each, each_in_steps

GROUP_ERROR_FROM_VERSION = 2
GROUPS_FROM_VERSION = 8
TOPIC_IDS_FROM_VERSION = 10


class OffsetFetchHandler:
    """Asks the coordinator, one group like many."""

    def __init__(self, groups: GroupService, image: Callable[[], MetadataImage], slices: Slices) -> None:
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(self, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Answer every group by itself, one that is named twice once; errors are in the reply."""
        version, image, slices = context.header.api_version, self._image(), self._slices
        named: Iterable[OffsetFetchRequestGroup] = request.groups
        if version < GROUPS_FROM_VERSION:
            named = (_as_group(request),)
        by_id = version >= TOPIC_IDS_FROM_VERSION
        groups = await slices.complete(_groups_once(named))
        asked = await slices.complete(each_in_steps(partial(_with_topics, image, by_id), groups))
        answers = await self._groups.fetch_offsets(asked, request.require_stable)
        if version < GROUPS_FROM_VERSION:
            return await slices.complete(_as_single(groups[0], _current(answers[0], image), version))
        return OffsetFetchResponse(groups=await slices.complete(_answers(groups, answers, image, by_id)))


def _with_topics(
    image: MetadataImage, by_id: bool, group: OffsetFetchRequestGroup
) -> Steps[OffsetFetchRequestGroup]:
    """The group with name and id of every topic; of those asked for by id only the ones that exist."""
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


def _answers(
    groups: Sequence[OffsetFetchRequestGroup],
    answers: Sequence[OffsetFetchResponseGroup],
    image: MetadataImage,
    by_id: bool,
) -> Steps[tuple[OffsetFetchResponseGroup, ...]]:
    found = []
    for group, answer in zip(groups, answers, strict=True):
        if group.topics is None:
            topics = _with_ids(answer.topics, image)
            found.append(replace(answer, topics=topics) if by_id else _current(answer, image))
        elif by_id and answer.error_code == ErrorCode.NONE:
            found.append((yield from _with_unknown(group.topics, answer, image)))
        else:
            found.append(answer)
        yield None
    return tuple(found)


def _with_unknown(
    asked: Iterable[OffsetFetchRequestTopics], answer: OffsetFetchResponseGroup, image: MetadataImage
) -> Steps[OffsetFetchResponseGroup]:
    """The answer with an error for each topic whose id is not known."""
    known = iter(answer.topics)
    topics = []
    for topic in asked:
        topics.append(next(known) if topic.topic_id in image.topics_by_id else (yield from _unknown(topic)))
        yield None
    return replace(answer, topics=tuple(topics))


def _current(answer: OffsetFetchResponseGroup, image: MetadataImage) -> OffsetFetchResponseGroup:
    """The answer without topics that are not the ones that have their names now."""
    topics = tuple(
        topic for topic in answer.topics if not ids_differ(topic.topic_id, _current_id(topic.name, image))
    )
    return replace(answer, topics=topics)


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


def _unknown(topic: OffsetFetchRequestTopics) -> Steps[OffsetFetchResponseTopics]:
    partitions = yield from each(
        lambda index: OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        ),
        topic.partition_indexes,
    )
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of versions 1-7 in the form of the later ones."""
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _groups_once(groups: Iterable[OffsetFetchRequestGroup]) -> Steps[tuple[OffsetFetchRequestGroup, ...]]:
    """Each group once."""
    return (yield from each_in_steps(_named_once, (yield from distinct(groups))))


def _named_once(group: OffsetFetchRequestGroup) -> Steps[OffsetFetchRequestGroup]:
    """Each partition of a topic once: the response has kilobytes of metadata for four bytes of an index."""
    if group.topics is None:
        return group
    topics = yield from each(
        lambda topic: replace(topic, partition_indexes=tuple(dict.fromkeys(topic.partition_indexes))),
        (yield from distinct(group.topics)),
    )
    return replace(group, topics=topics)


def _as_single(
    group: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup, version: int
) -> Steps[OffsetFetchResponse]:
    """An answer in the form of versions 1-7."""
    if answer.error_code != ErrorCode.NONE:
        if version >= GROUP_ERROR_FROM_VERSION:
            return OffsetFetchResponse(error_code=answer.error_code)
        failed = yield from each_in_steps(partial(_failed, answer.error_code), group.topics or ())
        return OffsetFetchResponse(topics=failed)
    return OffsetFetchResponse(topics=(yield from each_in_steps(_as_single_topic, answer.topics)))


def _as_single_topic(topic: OffsetFetchResponseTopics) -> Steps[OffsetFetchResponseTopic]:
    partitions = yield from each(
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
    partitions = yield from each(
        lambda index: OffsetFetchResponsePartition(
            partition_index=index, committed_offset=NO_OFFSET, error_code=error_code
        ),
        topic.partition_indexes,
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
