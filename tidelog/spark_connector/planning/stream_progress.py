"""Decides at which offsets each micro-batch of a stream ends, and handles the pitfalls of Spark's protocol.

- Spark requests the initial offset twice before batch 0, and again when a query that failed in batch 0 is
  restarted. "Latest" has moved by then. Therefore the first value is kept. If the value could change, the
  first batch is an empty *anchor*: it writes the start to Spark's log before any read, so that records which
  arrive after the start are not lost.
- Trigger.AvailableNow pins the ends once. Later ends cannot pass them, and the last end equals the start.
  A pinned end below what was already read is not valid: it is requested again, as for other triggers.
- Spark applies its own read limits, and only one of them. Therefore the maximum is applied here together with
  the minimum.

The shell passes offsets and the time as arguments; this module has no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.offset_specs import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Bound,
    OffsetSpec,
)
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.tier_options import TierMode
from tidelog.spark_connector.planning.trigger_limits import limit_end, should_wait


def start_may_move(starting: OffsetSpec, *, latest_without_match: bool) -> bool:
    """Return whether the same option can result in a later offset when it is requested again."""
    if isinstance(starting, AtOffsets):
        return any(offset == Bound.LATEST for offset in starting.offsets.values())
    if isinstance(starting, AtTimestamps | AtTimestamp):
        return latest_without_match
    return starting is Bound.LATEST


class StreamProgress:
    """Decides the ends of the batches of one run of a query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._needs_anchor = start_may_move(
            options.starting, latest_without_match=options.begins_latest_without_match
        )
        self._pinned: Offsets | None = None
        self._last_trigger_ms: int | None = None
        self.initial: Offsets | None = None
        """The start of a new query; None until Spark requests it, which it does not after a restart."""

    def begin(self, initial: Offsets) -> None:
        """Record the first initial offsets that were returned to Spark."""
        self.initial = initial

    def pin(self, ends: Offsets) -> None:
        """Set the ends of Trigger.AvailableNow: nothing after `ends` will be read."""
        self._pinned = ends

    def pinned_for(self, start: Mapping[TopicPartition, Offset]) -> Offsets | None:
        """Return the pinned ends; None without them, or if one is below `start` or missing."""
        pinned = self._pinned
        is_behind = pinned is None or any(
            pinned.get(topic_partition, -1) < begin for topic_partition, begin in start.items()
        )
        return None if is_behind else pinned

    def replace_pinned(self, start: Mapping[TopicPartition, Offset], ends: Offsets) -> Offsets:
        """Replace pinned ends that were too low by the newly requested `ends`, and return the pinned ends."""
        pinned = dict(self._pinned or {})
        for topic_partition, begin in start.items():
            if pinned.get(topic_partition, -1) < begin:
                pinned.pop(topic_partition, None)
                pinned |= {topic_partition: ends[topic_partition]} if topic_partition in ends else {}
        self._pinned = pinned
        return pinned

    @property
    def pinned(self) -> Offsets | None:
        """The ends of Trigger.AvailableNow; None for other triggers."""
        return self._pinned

    def is_anchor(self, start: Offsets) -> bool:
        """Return whether this batch must be empty, to make the start durable; True at most once."""
        is_anchor = self._needs_anchor and self.initial is not None and start == self.initial
        self._needs_anchor = False
        return is_anchor

    def next_end(
        self,
        start: Mapping[TopicPartition, Offset],
        ends: Mapping[TopicPartition, Offset],
        new_starts: Mapping[TopicPartition, Offset],
        *,
        max_offsets: int | None,
        min_offsets: int | None,
        now_ms: int,
    ) -> Offsets:
        """Return the end of the batch from `start`, given the partitions' `ends`; `start` itself means wait.

        `new_starts` has the log start offsets of partitions that are not in `start`.
        """
        if self._may_lie_behind(start):
            ends = {
                topic_partition: max(end, start.get(topic_partition, end))
                for topic_partition, end in ends.items()
            }
        if min_offsets is not None:
            max_offsets = self._options.max_offsets_per_trigger
        if min_offsets is not None and self._pinned is None:
            # The first batch does not wait: the query may have been stopped for any time.
            delay_ms = self._options.max_trigger_delay_ms
            waited_ms = delay_ms if self._last_trigger_ms is None else now_ms - self._last_trigger_ms
            if should_wait(min_offsets, start, ends, waited_ms=waited_ms, max_trigger_delay_ms=delay_ms):
                return dict(start)
            self._last_trigger_ms = now_ms
        if max_offsets is None:
            return dict(ends)
        return limit_end(max_offsets, start, ends, new_starts)

    def _may_lie_behind(self, start: Mapping[TopicPartition, Offset]) -> bool:
        """Return whether an end below `start` only means that there is nothing new.

        This is so before the first read, and with the bucket alone, which has less than the brokers.
        """
        is_offline = self._options.tier.mode is TierMode.OFFLINE
        return start == self.initial or (is_offline and not self._options.fail_on_data_loss)

    def batch_start(self, start: Offsets, end: Mapping[TopicPartition, Offset]) -> Offsets:
        """Return where the batch from `start` to `end` begins.

        A repeated batch 0 has its end from the checkpoint, but a newly requested start. If the start has
        moved past the end, nothing is read. A partition that was added later is not part of this batch.
        """
        if self.initial is None or start != self.initial:
            return start
        return {
            topic_partition: min(offset, end[topic_partition])
            for topic_partition, offset in start.items()
            if topic_partition in end
        }
