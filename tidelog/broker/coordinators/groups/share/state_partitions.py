"""The partitions whose state a share group has initialized at the share coordinator, or is changing there.

A partition is first initializing, then initialized. The states of a topic whose offsets are deleted are
deleting until the share coordinator has deleted them.

Source: ShareGroupStatePartitionMetadata of Apache Kafka 4.3.1, and its use in GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.coordinator_records.share_group import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)


class TopicPartitions(NamedTuple):
    """Partitions of a topic, with its name at that time."""

    name: str
    partitions: frozenset[int]


Partitions: TypeAlias = Mapping[UUID, TopicPartitions]
"""Partitions by topic id. No entry is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitions:
    """The partitions of one group. It is replaced, never modified.

    `deleting` has the names of topics by id.
    """

    initializing: Partitions = field(default_factory=dict)
    initialized: Partitions = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)

    @classmethod
    def from_value(cls, value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
        """Return the partitions of a record."""
        return cls(
            initializing=_from_entries(value.initializing_topics),
            initialized=_from_entries(value.initialized_topics),
            deleting={entry.topic_id: entry.topic_name for entry in value.deleting_topics},
        )

    def to_value(self) -> ShareGroupStatePartitionMetadataValue:
        """Return the value of the record."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_to_entries(self.initializing),
            initialized_topics=_to_entries(self.initialized),
            deleting_topics=tuple(
                TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in self.deleting.items()
            ),
        )

    def begin_initialization(self, partitions: Partitions) -> StatePartitions:
        """Return the partitions after the initialization of some has begun; their topics are not deleting."""
        return StatePartitions(
            initializing=_union(self.initializing, partitions),
            initialized=self.initialized,
            deleting={
                topic_id: name for topic_id, name in self.deleting.items() if topic_id not in partitions
            },
        )

    def end_initialization(self, initialized: Partitions, failed: Partitions) -> StatePartitions:
        """Return the partitions after some are initialized, and the initialization of others has failed."""
        return StatePartitions(
            initializing=_difference(_difference(self.initializing, initialized), failed),
            initialized=_union(self.initialized, initialized),
            deleting=self.deleting,
        )

    def begin_deletion(self, topics: Mapping[UUID, str]) -> StatePartitions:
        """Return the partitions after the deletion of the states of topics has begun."""
        return StatePartitions(
            initializing=self.initializing,
            initialized=_without(self.initialized, topics),
            deleting={**self.deleting, **topics},
        )

    def begin_deletion_of_all(self) -> StatePartitions:
        """Return the partitions after the deletion of all states has begun."""
        names = {
            topic_id: topic.name
            for partitions in (self.initialized, self.initializing)
            for topic_id, topic in partitions.items()
        }
        return StatePartitions(deleting={**self.deleting, **names})

    def end_deletion(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """Return the partitions after the states of topics are deleted."""
        return StatePartitions(
            initializing=self.initializing,
            initialized=self.initialized,
            deleting={
                topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids
            },
        )

    def without_topics(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """Return the partitions after topics were deleted."""
        return StatePartitions(
            initializing=_without(self.initializing, topic_ids),
            initialized=_without(self.initialized, topic_ids),
            deleting={
                topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids
            },
        )


def _from_entries(entries: Iterable[TopicPartitionsInfo]) -> Partitions:
    return {
        entry.topic_id: TopicPartitions(entry.topic_name, frozenset(entry.partitions))
        for entry in entries
        if entry.partitions
    }


def _to_entries(partitions: Partitions) -> tuple[TopicPartitionsInfo, ...]:
    return tuple(
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(topic.partitions))
        )
        for topic_id, topic in partitions.items()
    )


def _union(left: Partitions, right: Partitions) -> Partitions:
    result = dict(left)
    for topic_id, topic in right.items():
        existing = left.get(topic_id)
        indexes = topic.partitions if existing is None else existing.partitions | topic.partitions
        result[topic_id] = TopicPartitions(topic.name, indexes)
    return result


def _difference(left: Partitions, right: Partitions) -> Partitions:
    result = {}
    for topic_id, topic in left.items():
        removed = right.get(topic_id)
        indexes = topic.partitions if removed is None else topic.partitions - removed.partitions
        if indexes:
            result[topic_id] = TopicPartitions(topic.name, indexes)
    return result


def _without(partitions: Partitions, topic_ids: Collection[UUID]) -> Partitions:
    return {topic_id: topic for topic_id, topic in partitions.items() if topic_id not in topic_ids}
