"""Describes the offsets of share groups: the start offset and the lag of each partition.

The states of partitions are at the share coordinators, and the end offsets at the leaders. A request may name
many groups and partitions: all of the work is done in slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.share.persister import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_DELIVERY_COMPLETE_COUNT,
    SharePartitionKey,
    StateRead,
    StateSummary,
)
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, Offset, TopicPartition
from tidelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.steps import Steps, map_items, map_steps, without_duplicates

_UNKNOWN_LAG: Final = -1


class ShareOffsetDescriptions:
    """Describes the groups of the partitions of `__consumer_offsets` that this node leads."""

    def __init__(self, shards: Shards[GroupCoordinator], ports: GroupPorts) -> None:
        self._shards = shards
        self._image = ports.image
        self._persister = ports.persister
        self._end_offsets = ports.end_offsets
        self._slices = ports.slices

    async def describe(
        self, requests: Sequence[DescribeShareGroupOffsetsRequestGroup]
    ) -> tuple[DescribeShareGroupOffsetsResponseGroup, ...]:
        """Return start offset and lag of the requested partitions of each group, or of all initialized."""
        complete = self._slices.complete
        selections = await complete(map_steps(self._select, requests))
        reads = await complete(_reads(selections))
        summaries = dict(zip(reads, await self._persister.read_summary(list(reads.values())), strict=True))
        with_lag = await complete(_with_lag(selections, summaries))
        end_offsets = await self._end_offsets.of_partitions(with_lag) if with_lag else {}
        return await complete(map_steps(lambda each: _described(each, summaries, end_offsets), selections))

    def _select(self, request: DescribeShareGroupOffsetsRequestGroup) -> Steps[_Selection]:
        """Find the requested partitions of a group by topic id, and the results of unknown topics."""
        selection = _Selection(request.group_id)
        try:
            shard = self._shards.active_shard(request.group_id)
        except KafkaError as error:
            selection.error = KafkaError(error.code, str(error))
            return selection
        image = self._image()
        if request.topics is None:
            for topic_id, initialized in shard.coordinator.shares.offsets.initialized(
                request.group_id
            ).items():
                if topic_id in image.topics_by_id:
                    name, indexes = image.topics_by_id[topic_id].name, sorted(initialized.partitions)
                    selection.topics[topic_id] = _SelectedTopic(name, indexes)
            return selection
        for requested in request.topics:
            topic = image.topics_by_name.get(requested.topic_name)
            if topic is None:
                unknown = yield from map_items(_uninitialized, requested.partitions)
                selection.unknown.append(
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name=requested.topic_name, partitions=unknown
                    )
                )
            else:
                indexes = yield from without_duplicates(requested.partitions)
                selection.topics[topic.id] = _SelectedTopic(topic.name, indexes)
        return selection


class _SelectedTopic(NamedTuple):
    """The name of a topic, and partitions of it."""

    name: str
    partitions: Sequence[int]


@dataclass(slots=True)
class _Selection:
    """The partitions of one group that are described; `error` is that of the whole group."""

    group_id: str
    error: KafkaError | None = None
    topics: dict[UUID, _SelectedTopic] = field(default_factory=dict)
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)


def _reads(selections: Iterable[_Selection]) -> Steps[dict[SharePartitionKey, StateRead]]:
    """Return the reads of the states of all partitions."""
    reads: dict[SharePartitionKey, StateRead] = {}
    for selection in selections:
        for topic_id, topic in selection.topics.items():
            for index in topic.partitions:
                key = SharePartitionKey(selection.group_id, topic_id, index)
                reads[key] = StateRead(share_partition=key, leader_epoch=NO_LEADER_EPOCH)
                yield None
    return reads


def _with_lag(
    selections: Iterable[_Selection], summaries: Mapping[SharePartitionKey, StateSummary]
) -> Steps[dict[TopicPartition, None]]:
    """Return the partitions whose end offsets are needed."""
    partitions: dict[TopicPartition, None] = {}
    for selection in selections:
        for topic_id, topic in selection.topics.items():
            for index in topic.partitions:
                if _has_lag(summaries[SharePartitionKey(selection.group_id, topic_id, index)]):
                    partitions[TopicPartition(topic.name, index)] = None
                yield None
    return partitions


def _described(
    selection: _Selection,
    summaries: Mapping[SharePartitionKey, StateSummary],
    end_offsets: Mapping[TopicPartition, Offset | ErrorCode],
) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    """Return the description of one group."""
    group_id, error = selection.group_id, selection.error
    if error is not None:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error.code, error_message=str(error)
        )
    topics = selection.unknown
    for topic_id, topic in selection.topics.items():
        results = []
        for index in topic.partitions:
            summary = summaries[SharePartitionKey(group_id, topic_id, index)]
            results.append(_result(index, summary, end_offsets.get(TopicPartition(topic.name, index))))
            yield None
        if results:
            topics.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.name, topic_id=topic_id, partitions=tuple(results)
                )
            )
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=tuple(topics))


def _uninitialized(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    """Return the result of a partition of a topic that does not exist."""
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=UNINITIALIZED_START_OFFSET
    )


def _has_lag(summary: StateSummary) -> bool:
    """Return whether the lag can be computed: the delivery has begun."""
    return (
        not summary.error_code
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNKNOWN_DELIVERY_COMPLETE_COUNT
    )


def _result(
    index: int, summary: StateSummary, end_offset: Offset | ErrorCode | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """Return start offset and lag: the records from the start offset on whose delivery is not complete."""
    if summary.error_code:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=UNINITIALIZED_START_OFFSET, lag=_UNKNOWN_LAG
        )
    if isinstance(end_offset, ErrorCode):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=end_offset, error_message=end_offset.text
        )
    lag = _UNKNOWN_LAG
    if end_offset is not None:
        lag = end_offset - summary.start_offset - summary.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=lag,
    )
