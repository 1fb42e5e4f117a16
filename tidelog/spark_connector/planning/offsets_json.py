"""Offsets in Spark's checkpoints: `{"topic":{"0":23,"1":345}}`; a value is the next offset to read.

Spark compares offsets as text. Topics are therefore always sorted by name and partitions by number; otherwise
equal offsets would look like new data. The text contains nothing else, so that Spark's own Kafka source can
continue from checkpoints of this one, and the reverse.

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
    """Return the JSON object of `offsets`, with its keys in the required order."""
    by_topic: OffsetsByTopic = {}
    for topic, partition in sorted(offsets):
        by_topic.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return by_topic


def from_json_object(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets of an object that this source or Spark's Kafka source wrote.

    Errors: ValueError if it is not such an object.
    """
    offsets: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"offsets of topic {topic!r} are {partitions!r}")
        for number, offset in partitions.items():
            if not _is_int64(offset) or not (isinstance(number, str) and number.isdecimal()):
                raise ValueError(f"offset of partition {number!r} of topic {topic!r} is {offset!r}")
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def to_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the JSON text without spaces, as Spark's Kafka source writes it."""
    return json.dumps(to_json_object(offsets), separators=(",", ":"), ensure_ascii=False)


def read_offsets_option(option: str, text: str) -> Offsets:
    """Return the offsets or timestamps per partition of an option. Raise OptionError for invalid text."""
    try:
        offsets = from_json_object(read_json_object(option, text, EXAMPLE))
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError.of(option, text, f"JSON such as {EXAMPLE}; {error}") from None
    if not offsets:
        raise OptionError.of(option, text, f"JSON such as {EXAMPLE}, with at least one partition")
    return offsets


def _is_int64(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX
