"""The plan of one round of compaction, which the loop that owns the log creates.

A worker process executes the plan's task. It reads only files of sealed segments, which do not change. The
loop checks with `is_current` whether the result may still be used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.protocol.steps import Steps
from tidelog.storage.compaction.cleanable import Cleanable
from tidelog.storage.compaction.last_records import LastRecord
from tidelog.storage.compaction.segment_groups import SourceSegment, group_segments
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.disk.log_files import CLEANED_SUFFIX
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.read import aborted_transactions
from tidelog.storage.segment.segment import LogSegment

PRODUCERS_PER_STEP: Final = 2_000
"""The producers of a log that are read at once; this takes about 2 ms."""


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """One round: the `task`, and the segments of its sources as they were in this generation of the log."""

    task: CleaningTask
    segments: Sequence[LogSegment]
    generation: int

    def groups(self, end_offset: Offset) -> list[list[SourceSegment]]:
        """Return the segments with offsets below `end_offset`, grouped by the segment they become."""
        config = self.task.config
        sources = [source for source in self.task.sources if source.base_offset < end_offset]
        return group_segments(sources, config.segment_bytes, config.segment_index_bytes)

    def segments_of(self, group: Sequence[SourceSegment]) -> list[LogSegment]:
        """Return the segments of a group."""
        first, last = group[0].base_offset, group[-1].base_offset
        return [segment for segment in self.segments if first <= segment.base_offset <= last]


def plan_cleaning(
    log: PartitionLog, cleanable: Cleanable, now_ms: int, io_buffer_bytes: int
) -> Steps[CleaningPlan]:
    """Return the plan of a round; a replacement that was interrupted before is ended first.

    The log may change between the steps; `is_current` then returns whether the plan is still valid.
    I/O: the transaction indexes, and a short scan for the first dirty offset. Errors: KafkaError if the disk
    fails.
    """
    log.replacement.settle()
    generation = log.durability.generation
    segments = [segment for segment in log.segments if segment.base_offset < cleanable.end_offset]
    ends = [segment.base_offset for segment in segments[1:]] + [cleanable.end_offset]
    first_dirty_offset = cleanable.first_dirty_offset
    with log.failures.storage_errors("compaction"):
        aborted = aborted_transactions(log.segments, segments[0].base_offset, cleanable.end_offset)
        sources = [
            SourceSegment.of(segment, end, first_dirty_offset)
            for segment, end in zip(segments, ends, strict=True)
        ]
    last_records = yield from _last_records(log)
    task = CleaningTask(
        directory=log.directory,
        config=log.config,
        sources=sources,
        first_dirty_offset=first_dirty_offset,
        end_offset=cleanable.end_offset,
        aborted=aborted,
        last_records=last_records,
        now_ms=now_ms,
        io_buffer_bytes=io_buffer_bytes,
    )
    return CleaningPlan(task, segments, generation)


def is_current(log: PartitionLog, plan: CleaningPlan) -> bool:
    """Return whether the log has not changed in a way that makes the plan invalid."""
    return log.durability.generation == plan.generation and log.failure is None and log.config.is_compacted


def open_cleaned(log: PartitionLog, group: Sequence[SourceSegment]) -> LogSegment:
    """Return the cleaned segment of a group, which a worker has written. I/O: its indexes."""
    return LogSegment(
        log.fs,
        log.directory,
        group[0].base_offset,
        log.config,
        group[-1].created_ms,
        create=False,
        suffix=CLEANED_SUFFIX,
    )


def _last_records(log: PartitionLog) -> Steps[Mapping[ProducerId, LastRecord]]:
    last_records: dict[ProducerId, LastRecord] = {}
    for number, entry in enumerate(list(log.producers.producers.values()), 1):
        last_offset = entry.batches[-1].last_offset if entry.batches else None
        last_records[entry.producer_id] = LastRecord(last_offset, entry.producer_epoch)
        if number % PRODUCERS_PER_STEP == 0:
            yield None
    return last_records
