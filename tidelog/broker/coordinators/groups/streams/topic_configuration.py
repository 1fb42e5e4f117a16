"""Compares the topics of a topology with those that exist: is it ready, and which topics must be created?

Source: InternalTopicManager of Apache Kafka 4.3.1; the texts are Kafka's, because clients show them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.streams.partition_counts import CountOf, PartitionCounts
from tidelog.broker.coordinators.groups.streams.topology import StreamsTopology, invalid_topology
from tidelog.broker.coordinators.groups.streams.topology_status import (
    HeartbeatStatus,
    TopicProblem,
    incorrectly_partitioned,
)
from tidelog.protocol.coordinator_records.streams_group import Subtopology, TopicInfo

logger = logging.getLogger(__name__)

TASKS_MAX: Final = 20_000
"""The number of tasks that a topology may have; Kafka has no limit. Their records are written at once."""
_TOPICS_IN_TEXT_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic with its partition count; a replication factor of 0 is the default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with the number of its tasks, and with the partition counts of its internal topics."""

    task_count: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state."""
        return bool(self.state_changelog_topics)

    @property
    def all_source_topics(self) -> tuple[str, ...]:
        """The topics that it reads, sorted."""
        names = {*self.source_topics, *(topic.name for topic in self.repartition_source_topics)}
        return tuple(sorted(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """A topology, compared with the topics that exist.

    `subtopologies` is None if the tasks cannot be determined. `missing` are the topics to create.
    """

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: TopicProblem | None = field(default=None, compare=False)

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist with the right partition counts, so that tasks can be assigned."""
        return self.problem is None


def configure(group_id: str, topology: StreamsTopology, existing: CountOf) -> ConfiguredTopology:
    """Compare the topics of a topology with the existing ones. Raise STREAMS_INVALID_TOPOLOGY."""
    try:
        _check_source_topics(topology, existing)
        counts = PartitionCounts(topology, existing)
        subtopologies = {
            subtopology_id: _configured(topology.subtopologies[subtopology_id], counts)
            for subtopology_id in sorted(topology.subtopologies)
        }
        _check_task_count(subtopologies.values())
        missing = _missing_topics(subtopologies.values(), existing)
    except TopicProblem as problem:
        text = "Group %s: the topics of topology epoch %d are not usable: %s"
        logger.warning(text, group_id, topology.epoch, problem.detail)
        return ConfiguredTopology(subtopologies=None, problem=problem)
    if not missing:
        logger.info("Group %s: all topics of topology epoch %d exist", group_id, topology.epoch)
        return ConfiguredTopology(subtopologies=subtopologies)
    detail = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
    logger.info("Group %s: %s", group_id, detail)
    return ConfiguredTopology(
        subtopologies=subtopologies,
        missing=missing,
        problem=TopicProblem(HeartbeatStatus.MISSING_INTERNAL_TOPICS, detail),
    )


def _check_source_topics(topology: StreamsTopology, existing: CountOf) -> None:
    missing = {
        topic
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.source_topics
        if existing(topic) is None
    }
    if missing:
        detail = f"Source topics {_summary(sorted(missing))} are missing."
        raise TopicProblem(HeartbeatStatus.MISSING_SOURCE_TOPICS, detail)


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        task_count=counts.task_count(subtopology),
        source_topics=subtopology.source_topics,
        repartition_source_topics=tuple(
            _internal_topic(topic, counts) for topic in subtopology.repartition_source_topics
        ),
        repartition_sink_topics=subtopology.repartition_sink_topics,
        state_changelog_topics=tuple(
            _internal_topic(topic, counts) for topic in subtopology.state_changelog_topics
        ),
    )


def _internal_topic(topic: TopicInfo, counts: PartitionCounts) -> InternalTopic:
    return InternalTopic(
        name=topic.name,
        partition_count=topic.partitions or counts.decided[topic.name],
        replication_factor=topic.replication_factor,
        configs={config.key: config.value for config in topic.topic_configs},
    )


def _check_task_count(subtopologies: Collection[ConfiguredSubtopology]) -> None:
    """Raise STREAMS_INVALID_TOPOLOGY for more than TASKS_MAX tasks."""
    count = sum(subtopology.task_count for subtopology in subtopologies)
    if count > TASKS_MAX:
        raise invalid_topology(f"The topology has {count} tasks; allowed are {TASKS_MAX}.")


def _missing_topics(
    subtopologies: Collection[ConfiguredSubtopology], existing: CountOf
) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist, by name.

    Raise TopicProblem for one that exists with another partition count.
    """
    internal = {
        topic.name: topic
        for subtopology in subtopologies
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    }
    missing = []
    for name in sorted(internal):
        count, expected = existing(name), internal[name].partition_count
        if count is None:
            missing.append(internal[name])
        elif count != expected:
            text = f"Existing topic {name} has different number of partitions: "
            raise incorrectly_partitioned(f"{text}expected {expected}, found {count}")
    return tuple(missing)


def _summary(topics: Collection[str]) -> str:
    """Return the first topics as text, with the number of the others."""
    shown = ", ".join(list(topics)[:_TOPICS_IN_TEXT_MAX])
    further = len(topics) - _TOPICS_IN_TEXT_MAX
    return f"{shown} and {further} additional topics" if further > 0 else shown
