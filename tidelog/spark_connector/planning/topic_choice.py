"""The partitions that a query reads: `subscribe`, `subscribePattern` or `assign`.

Source: the ConsumerStrategy classes of Apache Spark's Kafka source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.option_values import OptionError, read_json_object

STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_ASSIGN_EXAMPLE: Final = '{"topic":[0,1]}'


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics or partitions of a query; exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] = frozenset()

    @property
    def named_topics(self) -> tuple[str, ...] | None:
        """The topics to request metadata for; None if all topics must be searched."""
        if self.pattern is not None:
            return None
        return self.topics or tuple(sorted({topic for topic, _ in self.assigned}))

    def matches(self, topic: str) -> bool:
        """Return whether the choice includes the topic; a pattern must match the whole name."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in (self.named_topics or ())

    def chooses(self, topic_partition: TopicPartition) -> bool:
        """Return whether the choice includes the partition, if it exists."""
        return topic_partition in self.assigned if self.assigned else self.matches(topic_partition.topic)

    def partitions(self, counts: Mapping[str, int]) -> frozenset[TopicPartition]:
        """Return the chosen partitions that exist; `counts` has the partition count of each topic."""
        existing = {
            TopicPartition(topic, number)
            for topic, count in counts.items()
            if self.matches(topic)
            for number in range(count)
        }
        return frozenset(existing & self.assigned if self.assigned else existing)

    def missing(self, counts: Mapping[str, int]) -> list[str]:
        """Return the named topics and partitions that do not exist."""
        if self.assigned:
            return [
                str(topic_partition)
                for topic_partition in sorted(self.assigned)
                if topic_partition.partition >= counts.get(topic_partition.topic, 0)
            ]
        return [topic for topic in self.topics if not counts.get(topic)]


def read_topic_choice(values: Mapping[str, str]) -> TopicChoice:
    """Return the choice in `values`, whose names are in lower case. Raise OptionError unless there is one."""
    strategies = [name for name in STRATEGIES if name.lower() in values]
    if len(strategies) != 1:
        named = " and ".join(strategies) or "none of them"
        raise OptionError(f"Invalid options: {named}; exactly one of {', '.join(STRATEGIES)} is required")
    option = strategies[0]
    text = values[option.lower()]
    if option == "subscribe":
        topics = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
        if not topics:
            raise OptionError.of(option, text, "names of topics, separated by commas")
        return TopicChoice(topics=topics)
    if option == "subscribePattern":
        return TopicChoice(pattern=_pattern(text))
    return TopicChoice(assigned=_assigned_partitions(text))


def _pattern(text: str) -> str:
    if not text.strip():
        raise OptionError.of("subscribePattern", text, "a regular expression")
    try:
        re.compile(text.strip())
    except re.error as error:
        raise OptionError.of("subscribePattern", text, f"a regular expression ({error})") from None
    return text.strip()


def _assigned_partitions(text: str) -> frozenset[TopicPartition]:
    partitions = set()
    allowed = f"JSON such as {_ASSIGN_EXAMPLE}"
    for topic, numbers in read_json_object("assign", text, _ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, Iterable) or isinstance(numbers, str):
            raise OptionError.of("assign", text, allowed)
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise OptionError.of("assign", text, f"{allowed}; bad partition {number!r}")
            partitions.add(TopicPartition(topic, number))
    if not partitions:
        raise OptionError.of("assign", text, f"{allowed}, with at least one partition")
    return frozenset(partitions)
