"""When records are gone that a query should have read, and what is read nevertheless.

Only the start of the log tells: gaps within a range are compaction, markers and aborted transactions.

Source: KafkaOffsetReaderConsumer.getOffsetRangesFromResolvedOffsets of Apache Spark (failOnDataLoss).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.ranges import OffsetRange


class DataLossError(RuntimeError):
    """Records are gone and `failOnDataLoss` is true; the text names partition, offsets and the option."""

    def __init__(self, loss: str) -> None:
        super().__init__(
            f"{loss}. Some data may have been lost; set option failOnDataLoss=false to go on without it"
        )


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """What one micro-batch reads, and what it cannot read any more."""

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
    """The ranges from `start` to `end`; `new_starts` are the log starts of partitions that `start` lacks.

    `gone`: partitions that are not there any more. `is_offline`: the ends are those of the tier.
    """
    losses = []
    for one in sorted(start.keys() - end.keys()):
        losses.append(f"{one} is gone; it was read up to offset {start[one]}")
    ranges = []
    for one in sorted(end):
        begin = start.get(one, new_starts.get(one))
        if begin is None:
            losses.append(f"{one} is gone before anything of it was read")
            continue
        if one not in start and begin > 0:
            losses.append(f"new partition {one} begins at offset {begin} and not at 0")
        if end[one] < begin:
            losses.append(
                f"the bucket has {one} up to offset {end[one]}, and it was read up to {begin}: "
                "through brokers, or of a topic that was made anew"
                if is_offline
                else f"the end of {one} went back from offset {begin} to {end[one]}"
            )
        elif end[one] > begin and one in gone:
            losses.append(f"{one} is gone; it should be read from offset {begin} to {end[one]}")
        elif end[one] > begin:
            ranges.append(OffsetRange(one, begin, end[one]))
    return PlannedBatch(ranges, losses)


def after_retention(wanted: OffsetRange, log_start_offset: Offset) -> tuple[OffsetRange, str | None]:
    """What is left of a range after the log's start has moved, and the loss, if any."""
    if log_start_offset <= wanted.start_offset:
        return wanted, None
    start = min(log_start_offset, wanted.end_offset)
    loss = (
        f"{wanted.topic_partition} should be read from offset {wanted.start_offset} to {wanted.end_offset}, "
        f"but its log starts at {log_start_offset}"
    )
    return OffsetRange(wanted.topic_partition, start, wanted.end_offset), loss
