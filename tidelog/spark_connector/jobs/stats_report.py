"""The figures of topics: Spark counts them for each partition, and others are derived. Pure.

Bytes are those of keys and values, without headers. A record is out of order if its timestamp is before that
of the preceding record. Distinct keys are estimates (HyperLogLog++, about 2 %), quantiles too (about 0.01 %).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.offsets_json import Offsets

QUANTILES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeStats:
    """Sizes in bytes of single records: quantiles of `QUANTILES`, and the largest; None without records."""

    p50: int | None = None
    p90: int | None = None
    p99: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counted figures; times are in ms since 1970, None without records."""

    records: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    null_keys: int = 0
    tombstones: int = 0
    distinct_keys: int = 0
    sizes: SizeStats = SizeStats()
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of keys and values together."""
        return self.key_bytes + self.value_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """One partition between two offsets."""

    partition: int
    start_offset: Offset
    end_offset: Offset
    counts: Counts
    out_of_order: int = 0
    step_back_ms_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """The records and bytes of one key."""

    key: bytes
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """One topic; `skew_...` is the largest partition divided by the mean, 1.0 if all are equal."""

    topic: str
    counts: Counts
    out_of_order: int
    skew_records: float | None
    skew_bytes: float | None
    partitions: tuple[PartitionStats, ...]
    top_keys_by_records: tuple[KeyCount, ...]
    top_keys_by_bytes: tuple[KeyCount, ...]


def skew(numbers: Sequence[int]) -> float | None:
    """Return the largest number divided by the mean; None if there are no records."""
    total = sum(numbers)
    return None if total == 0 else round(max(numbers) * len(numbers) / total, 3)


def partition_stats(
    starts: Offsets,
    ends: Offsets,
    counted: Mapping[TopicPartition, Counts],
    disorder: Mapping[TopicPartition, tuple[int, int]],
) -> dict[str, list[PartitionStats]]:
    """Return the partitions of each topic, also empty ones. `disorder` has count and largest lag in ms."""
    by_topic: dict[str, list[PartitionStats]] = {}
    for topic_partition in sorted(starts):
        out_of_order, step_back_ms = disorder.get(topic_partition, (0, 0))
        by_topic.setdefault(topic_partition.topic, []).append(
            PartitionStats(
                partition=topic_partition.partition,
                start_offset=starts[topic_partition],
                end_offset=ends[topic_partition],
                counts=counted.get(topic_partition, Counts()),
                out_of_order=out_of_order,
                step_back_ms_max=step_back_ms,
            )
        )
    return by_topic


def topic_stats(
    topic: str,
    counts: Counts,
    partitions: Iterable[PartitionStats],
    by_records: Iterable[KeyCount],
    by_bytes: Iterable[KeyCount],
) -> TopicStats:
    """Return the report of one topic."""
    ordered = tuple(partitions)
    return TopicStats(
        topic=topic,
        counts=counts,
        out_of_order=sum(one.out_of_order for one in ordered),
        skew_records=skew([one.counts.records for one in ordered]),
        skew_bytes=skew([one.counts.size_bytes for one in ordered]),
        partitions=ordered,
        top_keys_by_records=tuple(by_records),
        top_keys_by_bytes=tuple(by_bytes),
    )
