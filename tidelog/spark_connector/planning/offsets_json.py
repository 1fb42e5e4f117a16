"""Offsets as Spark keeps them in checkpoints: `{"topic":{"0":23,"1":345}}`, the value being the next to read.

Spark compares offsets as text: topics come sorted by name and partitions by number, always, or the same
offsets would look like new data. Nothing else may stand in it, so that Spark's own Kafka source can go on
from our checkpoints and we from its.

Source: org.apache.spark.sql.kafka010.JsonUtils of Apache Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.option_values import INT64_MAX, OptionError, read_json_object

Offsets: TypeAlias = dict[TopicPartition, Offset]
OffsetsByTopic: TypeAlias = dict[str, dict[str, int]]

EXAMPLE: Final = '{"topic":{"0":23,"1":-2}}'


def to_json_object(offsets: Mapping[TopicPartition, int]) -> OffsetsByTopic:
    """The object that is written, its keys in the one order that there is."""
    by_topic: OffsetsByTopic = {}
    for topic, partition in sorted(offsets):
        by_topic.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return by_topic


def from_json_object(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The offsets of an object that we or Spark's Kafka source wrote.

    Errors: ValueError when it is no such object.
    """
    offsets: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"offsets of topic {topic!r} are {partitions!r}")
        for number, offset in partitions.items():
            if not _is_whole(offset) or not (isinstance(number, str) and number.isdecimal()):
                raise ValueError(f"offset of partition {number!r} of topic {topic!r} is {offset!r}")
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def to_text(offsets: Mapping[TopicPartition, int]) -> str:
    """The text, without spaces, as Spark's Kafka source writes it."""
    return json.dumps(to_json_object(offsets), separators=(",", ":"), ensure_ascii=False)


def read_offsets_option(option: str, text: str) -> Offsets:
    """Offsets (or timestamps) per partition of an option; OptionError when the text is not of that form."""
    try:
        offsets = from_json_object(read_json_object(option, text, EXAMPLE))
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError.of(option, text, f"JSON such as {EXAMPLE}; {error}") from None
    if not offsets:
        raise OptionError.of(option, text, f"JSON such as {EXAMPLE}, with one partition at least")
    return offsets


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX
