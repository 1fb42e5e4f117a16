"""The topology and the tasks of a streams group (KIP-1071), as admin clients see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tidelog.base.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSubtopology:
    """The topics of one subtopology: those that it reads, and the changelogs of its stores."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[str, ...] = ()
    changelog_topics: tuple[str, ...] = ()

    @property
    def input_topics(self) -> tuple[str, ...]:
        """The source and repartition topics."""
        return self.source_topics + self.repartition_source_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTopology:
    """The topology of a streams group, with its epoch."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...] = ()

    @property
    def source_topics(self) -> frozenset[str]:
        """The source topics of all subtopologies."""
        return frozenset(topic for each in self.subtopologies for topic in each.source_topics)

    @property
    def input_topics(self) -> frozenset[str]:
        """The source and repartition topics of all subtopologies."""
        return frozenset(topic for each in self.subtopologies for topic in each.input_topics)

    @property
    def internal_topics(self) -> frozenset[str]:
        """The repartition and changelog topics that are not source topics as well."""
        topics = (
            topic
            for each in self.subtopologies
            for topic in (*each.repartition_source_topics, *each.changelog_topics)
        )
        return frozenset(topics) - self.source_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTasks:
    """The tasks of a member: the partitions of each subtopology, by its id."""

    active: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    standby: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    warmup: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """What a member of a streams group has in addition to other group members."""

    process_id: str
    topology_epoch: int
    tasks: StreamsTasks
    target_tasks: StreamsTasks
