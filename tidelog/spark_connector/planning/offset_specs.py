"""The start and end offsets of a query: the options, the requests to brokers, and the results.

| option | value |
|---|---|
| startingOffsets, endingOffsets | `earliest`, `latest` or JSON per partition; -2 is earliest, -1 latest |
| ...OffsetsByTimestamp | JSON of ms since the epoch per partition; overrides the first |
| startingTimestamp, endingTimestamp | one timestamp for all partitions; overrides both |

Source: the guide to Spark's Kafka integration; KafkaSourceProvider of Apache Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.offsets_json import EXAMPLE, Offsets, read_offsets_option
from tidelog.spark_connector.planning.option_values import OptionError, read_number

LATEST: Final = -1
EARLIEST: Final = -2


class Bound(IntEnum):
    """The start or the end of every partition, with its number in JSON and in ListOffsets."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, or -1 or -2."""

    option: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """For each partition, the first record at or after a timestamp in ms."""

    option: str
    timestamps: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """For all partitions, the first record at or after one timestamp in ms."""

    option: str
    timestamp_ms: int


OffsetSpec: TypeAlias = Bound | AtOffsets | AtTimestamps | AtTimestamp


@dataclass(frozen=True, slots=True)
class OffsetLookups:
    """The offsets in the option, and those to request by ListOffsets; `timestamps` has the timestamps."""

    explicit: Offsets
    bounds: dict[TopicPartition, int]
    timestamps: dict[TopicPartition, int]
    option: str = ""


def read_starting(values: Mapping[str, str], default: Bound, *, is_streaming: bool) -> OffsetSpec:
    """Return the start of a query, from options with names in lower case; a batch cannot start at latest."""
    forbidden = None if is_streaming else Bound.LATEST
    return _read(values, "starting", default, forbidden)


def read_ending(values: Mapping[str, str]) -> OffsetSpec:
    """Return the end of a batch query: latest by default; it cannot be earliest."""
    return _read(values, "ending", Bound.LATEST, Bound.EARLIEST)


def _read(values: Mapping[str, str], edge: str, default: Bound, forbidden: Bound | None) -> OffsetSpec:
    timestamp_option, timestamps_option, offsets_option = (
        f"{edge}Timestamp",
        f"{edge}OffsetsByTimestamp",
        f"{edge}Offsets",
    )
    if (text := values.get(timestamp_option.lower())) is not None:
        return AtTimestamp(timestamp_option, read_number(timestamp_option, text))
    if (text := values.get(timestamps_option.lower())) is not None:
        timestamps = read_offsets_option(timestamps_option, text)
        if min(timestamps.values()) < 0:
            raise OptionError.of(timestamps_option, text, "timestamps in ms that are not negative")
        return AtTimestamps(timestamps_option, timestamps)
    if (text := values.get(offsets_option.lower())) is None:
        return default
    allowed = [bound.name.lower() for bound in Bound if bound is not forbidden]
    word = text.strip().lower()
    if word in allowed:
        return Bound[word.upper()]
    if not word.startswith("{"):
        raise OptionError.of(offsets_option, text, f"{' or '.join(allowed)} or JSON such as {EXAMPLE}")
    offsets = read_offsets_option(offsets_option, text)
    for topic_partition, offset in offsets.items():
        if offset < EARLIEST or offset == forbidden:
            expected = "an offset" + "".join(
                f", {int(bound)} for {bound.name.lower()}" for bound in Bound if bound != forbidden
            )
            raise OptionError.of(offsets_option, text, f"{expected}; {topic_partition} has {offset}")
    return AtOffsets(offsets_option, offsets)


def required_lookups(spec: OffsetSpec, partitions: Collection[TopicPartition]) -> OffsetLookups:
    """Return what must be requested to get the offset of each of `partitions`.

    Errors: OptionError if the JSON names other partitions than those of the query.
    """
    if isinstance(spec, Bound):
        return OffsetLookups({}, dict.fromkeys(partitions, int(spec)), {})
    if isinstance(spec, AtTimestamp):
        return OffsetLookups({}, {}, dict.fromkeys(partitions, spec.timestamp_ms), spec.option)
    listed = spec.timestamps if isinstance(spec, AtTimestamps) else spec.offsets
    _require_same(spec.option, listed, partitions)
    if isinstance(spec, AtTimestamps):
        return OffsetLookups({}, {}, dict(listed), spec.option)
    explicit = {topic_partition: offset for topic_partition, offset in listed.items() if offset >= 0}
    bounds = {topic_partition: offset for topic_partition, offset in listed.items() if offset < 0}
    return OffsetLookups(explicit, bounds, {}, spec.option)


def _require_same(option: str, listed: Offsets, partitions: Collection[TopicPartition]) -> None:
    missing = sorted(set(partitions) - listed.keys())
    if missing:
        text = ", ".join(map(str, missing))
        raise OptionError(
            f"option {option} must name every partition of the query (-1 is latest, -2 earliest); "
            f"it lacks {text}"
        )
    unknown = sorted(listed.keys() - set(partitions))
    if unknown:
        raise OptionError(
            f"option {option} names {', '.join(map(str, unknown))}, which is not read or does not exist"
        )


def require_match(lookups: OffsetLookups, unmatched: Collection[TopicPartition]) -> None:
    """Raise OptionError, naming one of the partitions, if no record is at or after a timestamp."""
    for topic_partition in sorted(unmatched):
        raise OptionError(
            f"option {lookups.option}: {topic_partition} has no record at or after "
            f"{lookups.timestamps[topic_partition]} ms; set startingOffsetsByTimestampStrategy=latest "
            "to start at its end instead"
        )
