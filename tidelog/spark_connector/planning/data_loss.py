"""Detects that records were deleted before a query read them, and plans what can still be read.

Only the start of the log shows this. Gaps within a range come from compaction, markers and aborted
transactions.

Source: KafkaOffsetReaderConsumer.getOffsetRangesFromResolvedOffsets of Apache Spark (failOnDataLoss).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.ranges import OffsetRange


class DataLossError(RuntimeError):
    """Records were deleted and `failOnDataLoss` is true; the text names partition, offsets and option."""

    def __init__(self, loss: str) -> None:
        super().__init__(
            f"{loss}. Some data may have been lost; set option failOnDataLoss=false to continue without it"
        )


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The ranges that one micro-batch reads, and the losses: what it cannot read any more."""

    ranges: list[OffsetRange]
    losses: list[str]


def plan_batch(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    new_starts: Mapping[TopicPartition, Offset],
    *,
    gone: Collection[TopicPartition] = (),
    is_offline: bool = False,
) -> PlannedBatch:
    """Plan the ranges from `start` to `end`.

    `new_starts` has the log start offsets of partitions that are not in `start`; `gone` has partitions that
    no longer exist. With `is_offline`, the ends are those of the tier.
    """
    losses = []
    for one in sorted(start.keys() - end.keys()):
        losses.append(f"{one} no longer exists; it was read up to offset {start[one]}")
    ranges = []
    for one in sorted(end):
        begin = start.get(one, new_starts.get(one))
        if begin is None:
            losses.append(f"{one} was deleted before any of its records were read")
            continue
        if one not in start and begin > 0:
            losses.append(f"new partition {one} starts at offset {begin} instead of 0")
        if end[one] < begin:
            losses.append(
                f"the bucket has {one} up to offset {end[one]}, and it was read up to {begin}: "
                "through brokers, or before the topic was re-created"
                if is_offline
                else f"the end offset of {one} decreased from {begin} to {end[one]}"
            )
        elif end[one] > begin and one in gone:
            losses.append(f"{one} no longer exists; it should be read from offset {begin} to {end[one]}")
        elif end[one] > begin:
            ranges.append(OffsetRange(one, begin, end[one]))
    return PlannedBatch(ranges, losses)


def after_retention(wanted: OffsetRange, log_start_offset: Offset) -> tuple[OffsetRange, str | None]:
    """Return the part of a range after the log start offset, and the loss or None."""
    if log_start_offset <= wanted.start_offset:
        return wanted, None
    start = min(log_start_offset, wanted.end_offset)
    loss = (
        f"{wanted.topic_partition} should be read from offset {wanted.start_offset} to {wanted.end_offset}, "
        f"but its log starts at {log_start_offset}"
    )
    return OffsetRange(wanted.topic_partition, start, wanted.end_offset), loss
