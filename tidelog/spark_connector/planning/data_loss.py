"""Detects that records were deleted before a query read them, and plans what can still be read.

Only the start of the log shows this. Gaps within a range come from compaction, markers and aborted
transactions.

Source: KafkaOffsetReaderConsumer.getOffsetRangesFromResolvedOffsets of Apache Spark (failOnDataLoss).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidelog.base.dataclass import dataclass
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
    deleted: Collection[TopicPartition] = (),
    is_offline: bool = False,
) -> PlannedBatch:
    """Plan the ranges from `start` to `end`.

    `new_starts` has the log start offsets of partitions that are not in `start`; `deleted` has partitions
    that no longer exist. With `is_offline`, the ends are those of the tier.
    """
    losses = []
    for topic_partition in sorted(start.keys() - end.keys()):
        losses.append(
            f"{topic_partition} no longer exists; it was read up to offset {start[topic_partition]}"
        )
    ranges = []
    for topic_partition, end_offset in sorted(end.items()):
        begin = start.get(topic_partition, new_starts.get(topic_partition))
        if begin is None:
            losses.append(f"{topic_partition} was deleted before any of its records were read")
            continue
        if topic_partition not in start and begin > 0:
            losses.append(f"new partition {topic_partition} starts at offset {begin} instead of 0")
        if end_offset < begin:
            losses.append(
                f"the bucket has {topic_partition} up to offset {end_offset}, and it was read up to {begin}: "
                "through brokers, or before the topic was re-created"
                if is_offline
                else f"the end offset of {topic_partition} decreased from {begin} to {end_offset}"
            )
        elif end_offset > begin and topic_partition in deleted:
            losses.append(
                f"{topic_partition} no longer exists; it should be read from offset {begin} to {end_offset}"
            )
        elif end_offset > begin:
            ranges.append(OffsetRange(topic_partition, begin, end_offset))
    return PlannedBatch(ranges, losses)


def trim_to_log_start(requested: OffsetRange, log_start_offset: Offset) -> tuple[OffsetRange, str | None]:
    """Return the part of a range after the log start offset, and the loss or None."""
    if log_start_offset <= requested.start_offset:
        return requested, None
    start = min(log_start_offset, requested.end_offset)
    loss = f"{request_text(requested)}, but its log starts at {log_start_offset}"
    return OffsetRange(requested.topic_partition, start, requested.end_offset), loss


def request_text(requested: OffsetRange) -> str:
    """Return the beginning of the description of a loss: which offsets should be read."""
    return (
        f"{requested.topic_partition} should be read from offset {requested.start_offset} "
        f"to {requested.end_offset}"
    )
