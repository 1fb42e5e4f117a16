"""Decides the partition counts of the internal topics of a topology.

A repartition topic without a fixed count gets the largest count of the topics that its writers read, unless a
topic with which it must be copartitioned demands another. A changelog topic gets the number of tasks of
its subtopology.

Source: RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics of Apache Kafka 4.3.1; the texts
are Kafka's, because clients show them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import TypeAlias

from tidelog.broker.coordinators.groups.streams.topology import (
    StreamsTopology,
    copartition_groups,
    invalid_topology,
    source_topics,
)
from tidelog.broker.coordinators.groups.streams.topology_status import incorrectly_partitioned
from tidelog.protocol.coordinator_records.streams_group import Subtopology

CountOf: TypeAlias = Callable[[str], int | None]
"""Returns the partition count of an existing topic; None if there is no such topic."""


class PartitionCounts:
    """The counts of the topics of a topology: those of existing topics, and those that are decided.

    `decided` has the counts of internal topics, whether they exist or not.
    """

    def __init__(self, topology: StreamsTopology, existing: CountOf) -> None:
        """Decide all counts. The source topics of users must exist.

        Raise TopicProblem for topics that are not copartitioned, and STREAMS_INVALID_TOPOLOGY.
        """
        self.decided: dict[str, int] = {}
        self._existing = existing
        subtopologies = topology.subtopologies.values()
        self._decide_repartition_topics(subtopologies)
        self._enforce_copartitioning(subtopologies)
        for subtopology in subtopologies:
            count = self.task_count(subtopology)
            for topic in subtopology.state_changelog_topics:
                self.decided[topic.name] = count

    def of(self, topic: str) -> int:
        """Return the count of a source topic."""
        count = self._existing(topic)
        return self.decided[topic] if count is None else count

    def task_count(self, subtopology: Subtopology) -> int:
        """Return the number of tasks: the largest partition count of the topics that a subtopology reads."""
        counts = [self.of(topic) for topic in source_topics(subtopology)]
        if not counts:
            raise invalid_topology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(counts)

    # Repartition topics

    def _decide_repartition_topics(self, subtopologies: Collection[Subtopology]) -> None:
        for subtopology in subtopologies:
            for topic in subtopology.repartition_source_topics:
                if topic.partitions < 0:
                    raise invalid_topology(f"Topic {topic.name} has {topic.partitions} partitions.")
                if topic.partitions:
                    self.decided[topic.name] = topic.partitions
        self._decide_all_sinks(list(subtopologies))
        for subtopology in subtopologies:
            if any(topic.name not in self.decided for topic in subtopology.repartition_source_topics):
                text = (
                    "Failed to compute number of partitions for all repartition topics, because a "
                    "repartition source topic is never used as a sink topic."
                )
                raise invalid_topology(text)

    def _decide_all_sinks(self, subtopologies: Sequence[Subtopology]) -> None:
        """Decide the counts of the topics that subtopologies write, in rounds over all of them, as in Kafka.

        A subtopology is read in the first round, and once more when the count of a topic that it reads has
        been decided: rounds over all of 1,000 subtopologies in a row would take 0.5 s.
        """
        readers: dict[str, list[int]] = {}
        for number, subtopology in enumerate(subtopologies):
            for topic in subtopology.repartition_source_topics:
                readers.setdefault(topic.name, []).append(number)
        undecided = set(range(len(subtopologies)))
        to_read = [(0, number) for number in range(len(subtopologies))]
        while to_read:
            round_number, number = heapq.heappop(to_read)
            if number not in undecided:
                continue
            count = self._known_source_count(subtopologies[number])
            if count is None:
                continue
            undecided.discard(number)
            for sink in subtopologies[number].repartition_sink_topics:
                if sink not in self.decided:
                    self.decided[sink] = count
                    for reader in readers.get(sink, ()):
                        heapq.heappush(to_read, (round_number + (reader <= number), reader))
        if any(sink not in self.decided for each in subtopologies for sink in each.repartition_sink_topics):
            text = (
                "Failed to compute number of partitions for all repartition topics. There may be loops "
                "in the topology that cannot be resolved."
            )
            raise invalid_topology(text)

    def _known_source_count(self, subtopology: Subtopology) -> int | None:
        """Return the largest count of the sources that is known so far; None if none is."""
        counts = [
            self.decided[topic.name]
            for topic in subtopology.repartition_source_topics
            if topic.name in self.decided
        ]
        existing = (self._existing(topic) for topic in subtopology.source_topics)
        return max((*counts, *(count for count in existing if count is not None)), default=None)

    # Copartitioning

    def _enforce_copartitioning(self, subtopologies: Collection[Subtopology]) -> None:
        topics = [topic for each in subtopologies for topic in each.repartition_source_topics]
        internal = frozenset(topic.name for topic in topics)
        fixed = frozenset(topic.name for topic in topics if topic.partitions)
        # They do not change here, and a topology may have thousands of them, and of groups.
        fixed_counts = frozenset(map(self.of, fixed))
        for subtopology in subtopologies:
            for group in copartition_groups(subtopology):
                if group:
                    self._enforce(group, internal, fixed, fixed_counts)

    def _enforce(
        self, topics: Set[str], internal: Set[str], fixed: Set[str], fixed_counts: Collection[int]
    ) -> None:
        """Give the repartition topics of a group the same count as its other topics.

        `internal` are all repartition topics, `fixed` those with a fixed count, `fixed_counts` these.
        """
        repartition = {name: self.of(name) for name in sorted(topics) if name in internal}
        others = {name: self.of(name) for name in sorted(topics) if name not in internal}
        if others:
            count = _same_count(others.values(), others)
        elif fixed:
            # Kafka compares all topics with a fixed count, even those outside of the group.
            count = _same_count(fixed_counts, repartition)
        else:
            count = max(repartition.values())
        for name, current in repartition.items():
            if name in fixed and current != count:
                text = (
                    f"Number of partitions [{current}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic."
                )
                raise incorrectly_partitioned(text)
            self.decided[name] = count


def _same_count(counts: Collection[int], reported: Mapping[str, int]) -> int:
    """Return the only one of `counts`. Raise TopicProblem, which lists `reported`, if they differ."""
    if len(set(counts)) > 1:
        text = ", ".join(f"{name}={count}" for name, count in reported.items())
        raise incorrectly_partitioned(
            f"Following topics do not have the same number of partitions: [{{{text}}}]"
        )
    return next(iter(counts))
