"""The topology of a Kafka Streams application: its subtopologies, and their topics.

Source: StreamsTopology of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tidelog.protocol.coordinator_records.streams_group import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages import streams_group_heartbeat as heartbeat

SUBTOPOLOGIES_MAX: Final = 1_000
"""The number of subtopologies that a topology may have; Kafka has no limit."""
_TEXT_BYTES: Final = 150
"""The overhead of a topic name or a config in bytes."""


class StreamsTopology:
    """One epoch of a topology. It never changes."""

    def __init__(self, epoch: int, subtopologies: Mapping[str, Subtopology]) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies
        self.subtopology_of_topic: Mapping[str, str] = {
            topic: subtopology_id
            for subtopology_id, subtopology in subtopologies.items()
            for topic in source_topics(subtopology)
        }
        """The subtopology that reads a topic, by the topic's name."""
        self.required_topics: frozenset[str] = frozenset(
            (*self.subtopology_of_topic, *(topic.name for topic in self._changelog_topics()))
        )
        """All topics that must exist: source, repartition and changelog topics."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamsTopology):
            return NotImplemented
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]

    def _changelog_topics(self) -> Iterator[TopicInfo]:
        for subtopology in self.subtopologies.values():
            yield from subtopology.state_changelog_topics

    @property
    def size_bytes(self) -> int:
        """The memory of the topology in bytes."""
        return sum(
            _TEXT_BYTES + len(text) for each in self.subtopologies.values() for text in _texts_of(each)
        )

    def to_value(self) -> StreamsGroupTopologyValue:
        """Return the value of the record."""
        return StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=tuple(self.subtopologies.values()))

    @classmethod
    def from_value(cls, value: StreamsGroupTopologyValue) -> StreamsTopology:
        """Return the topology of a record."""
        return cls(value.epoch, {each.subtopology_id: each for each in value.subtopologies})

    @classmethod
    def from_request(cls, topology: heartbeat.Topology) -> StreamsTopology:
        """Return the topology of a heartbeat.

        Raise STREAMS_INVALID_TOPOLOGY for one that no coordinator could use.
        """
        if topology.epoch < 0:
            raise invalid_topology(f"Topology epoch {topology.epoch} is negative.")
        if len(topology.subtopologies) > SUBTOPOLOGIES_MAX:
            count = len(topology.subtopologies)
            raise invalid_topology(
                f"The topology has {count} subtopologies; allowed are {SUBTOPOLOGIES_MAX}."
            )
        subtopologies: dict[str, Subtopology] = {}
        for each in topology.subtopologies:
            if each.subtopology_id in subtopologies:
                raise invalid_topology(f"Subtopology {each.subtopology_id} occurs twice.")
            _check_copartition_groups(each)
            subtopologies[each.subtopology_id] = _subtopology(each)
        return cls(topology.epoch, subtopologies)


def invalid_topology(text: str) -> KafkaError:
    """Return the error STREAMS_INVALID_TOPOLOGY."""
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def source_topics(subtopology: Subtopology) -> Iterator[str]:
    """Yield the topics that a subtopology reads: those of users, and repartition topics."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def copartition_groups(subtopology: Subtopology) -> Iterator[frozenset[str]]:
    """Yield the sets of topics that must have the same number of partitions."""
    for group in subtopology.copartition_groups:
        yield frozenset(
            (
                *(subtopology.source_topics[index] for index in group.source_topics),
                *(
                    subtopology.repartition_source_topics[index].name
                    for index in group.repartition_source_topics
                ),
            )
        )


def _check_copartition_groups(subtopology: heartbeat.Subtopology) -> None:
    topics, repartition_topics = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
    for group in subtopology.copartition_groups:
        for indexes, count in (
            (group.source_topics, topics),
            (group.repartition_source_topics, repartition_topics),
        ):
            for index in indexes:
                if not 0 <= index < count:
                    text = f"Subtopology {subtopology.subtopology_id}: there is no topic with index {index}."
                    raise invalid_topology(text)


def _texts_of(subtopology: Subtopology) -> Iterator[str]:
    yield subtopology.subtopology_id
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name
        for config in topic.topic_configs:
            yield config.key + config.value


def _subtopology(subtopology: heartbeat.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=_topics(subtopology.state_changelog_topics),
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=_topics(subtopology.repartition_source_topics),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in subtopology.copartition_groups
        ),
    )


def _topics(topics: Iterable[heartbeat.TopicInfo]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=tuple(TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs),
        )
        for topic in topics
    )
