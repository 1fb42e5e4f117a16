"""Which offsets each micro-batch of a stream ends at. Spark's protocol has traps; this is where they are met.

- Spark asks for the initial offset twice before batch 0, and again when a query that failed in batch 0 comes
  back. "Latest" has moved on by then. So the answer is kept, and where it could change, the first batch is an
  empty *anchor*: it puts the start into Spark's log before anything is read, and what came since is not lost.
- Trigger.AvailableNow pins the ends once; after that no end may pass them, and the last answer is the start.
  An end below what was read is no end to stop at: it is asked again, and then told, as for other triggers.
- Spark counts offsets with its own read limits, of which there can be only one: so the most is applied where
  the least has been asked for.

The shell tells offsets and the time; nothing here asks for them.
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
from tidelog.spark_connector.planning.trigger_limits import limited, waits


def start_may_move(starting: OffsetSpec, *, latest_without_match: bool) -> bool:
    """Whether the same option may mean a later offset when it is asked again."""
    if isinstance(starting, AtOffsets):
        return any(offset == Bound.LATEST for offset in starting.offsets.values())
    if isinstance(starting, AtTimestamps | AtTimestamp):
        return latest_without_match
    return starting is Bound.LATEST


class StreamProgress:
    """Decides the ends of one query's batches; made anew when the query is started again."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._needs_anchor = start_may_move(
            options.starting, latest_without_match=options.begins_latest_without_match
        )
        self._pinned: Offsets | None = None
        self._last_trigger_ms: int | None = None
        self.initial: Offsets | None = None
        """Where a fresh query began; None while Spark has not asked, as it does not when it goes on."""

    def begin(self, initial: Offsets) -> None:
        """Spark asked for the first time where to begin."""
        self.initial = initial

    def pin(self, ends: Offsets) -> None:
        """Trigger.AvailableNow: nothing behind `ends` will be read."""
        self._pinned = ends

    def pinned_for(self, start: Mapping[TopicPartition, Offset]) -> Offsets | None:
        """What was pinned; None where nothing was, or where it is lower than `start` or lacks something."""
        pinned = self._pinned
        is_behind = pinned is None or any(pinned.get(one, -1) < begin for one, begin in start.items())
        return None if is_behind else pinned

    def pin_again(self, start: Mapping[TopicPartition, Offset], ends: Offsets) -> Offsets:
        """What is pinned after another question: `ends`, its answer, where the pinned one was too low."""
        pinned = dict(self._pinned or {})
        for one, begin in start.items():
            if pinned.get(one, -1) < begin:
                pinned.pop(one, None)
                pinned |= {one: ends[one]} if one in ends else {}
        self._pinned = pinned
        return pinned

    @property
    def pinned(self) -> Offsets | None:
        """The ends of Trigger.AvailableNow; None for other triggers."""
        return self._pinned

    def is_anchor(self, start: Offsets) -> bool:
        """Whether this batch shall be empty, to make the start durable; true once at most."""
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
        """Where the batch from `start` ends, when the partitions end at `ends`; `start` itself to wait.

        `new_starts`: where the partitions begin that `start` lacks.
        """
        if self._may_lie_behind(start):
            ends = {one: max(end, start.get(one, end)) for one, end in ends.items()}
        if min_offsets is not None:
            max_offsets = self._options.max_offsets_per_trigger
        if min_offsets is not None and self._pinned is None:
            # The first batch does not wait: nobody knows how long the query was away.
            delay_ms = self._options.max_trigger_delay_ms
            waited_ms = delay_ms if self._last_trigger_ms is None else now_ms - self._last_trigger_ms
            if waits(min_offsets, start, ends, waited_ms=waited_ms, max_trigger_delay_ms=delay_ms):
                return dict(start)
            self._last_trigger_ms = now_ms
        if max_offsets is None:
            return dict(ends)
        return limited(max_offsets, start, ends, new_starts)

    def _may_lie_behind(self, start: Mapping[TopicPartition, Offset]) -> bool:
        """Whether an end that is lower than `start` means that there is nothing new.

        So it is before anything was read, and with the bucket alone, which is behind what brokers gave.
        """
        is_offline = self._options.tier.mode is TierMode.OFFLINE
        return start == self.initial or (is_offline and not self._options.fail_on_data_loss)

    def start_of(self, start: Offsets, end: Mapping[TopicPartition, Offset]) -> Offsets:
        """Where the batch from `start` to `end` begins.

        Batch 0 that is done again has its end from the checkpoint and a start that was asked anew. Where that
        has moved behind the end, nothing is read; a partition that was added since is not of this batch.
        """
        if self.initial is None or start != self.initial:
            return start
        return {one: min(begin, end[one]) for one, begin in start.items() if one in end}
