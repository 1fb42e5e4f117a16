"""What a thread needs to compact a log; the loop that owns the log creates it.

The thread reads only files of sealed segments. They do not change, and remain readable after the log has
removed them. The loop checks with `is_current` whether the result may still be used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelog.protocol.ids import Offset, ProducerId
from tidelog.storage.compaction.batch_filter import LastRecord
from tidelog.storage.compaction.cleanable import Cleanable
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.read import aborted_transactions
from tidelog.storage.segment.txn_index import AbortedTransaction


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """One round of compaction: the segments up to `end_offset`, dirty from `first_dirty_offset` on.

    Bounds: as many `aborted` transactions as the indexes of these segments have.
    """

    fs: FileSystem
    directory: str
    config: LogConfig
    generation: int
    sources: Sequence[SourceSegment]
    first_dirty_offset: Offset
    end_offset: Offset
    aborted: Sequence[AbortedTransaction]
    """Those that overlap the segments, by their first offsets."""
    now_ms: int
    io_buffer_bytes: int
    """How many bytes are read and written at a time; a longer batch is read as a whole."""


def plan_cleaning(log: PartitionLog, cleanable: Cleanable, now_ms: int, io_buffer_bytes: int) -> CleaningPlan:
    """Return the plan of a round. I/O: the transaction indexes. Errors: KafkaError if the disk fails."""
    segments = [segment for segment in log.segments if segment.base_offset < cleanable.end_offset]
    ends = [segment.base_offset for segment in segments[1:]] + [cleanable.end_offset]
    sources = [SourceSegment.of(segment, end) for segment, end in zip(segments, ends, strict=True)]
    with log.failures.storage_errors("compaction"):
        aborted = aborted_transactions(log.segments, segments[0].base_offset, cleanable.end_offset)
    return CleaningPlan(
        fs=log.fs,
        directory=log.directory,
        config=log.config,
        generation=log.durability.generation,
        sources=sources,
        first_dirty_offset=cleanable.first_dirty_offset,
        end_offset=cleanable.end_offset,
        aborted=aborted,
        now_ms=now_ms,
        io_buffer_bytes=io_buffer_bytes,
    )


def is_current(log: PartitionLog, plan: CleaningPlan) -> bool:
    """Return whether the log has not changed in a way that makes the plan invalid; from any thread."""
    return log.durability.generation == plan.generation and log.failure is None and log.config.is_compacted


def last_records(log: PartitionLog) -> Mapping[ProducerId, LastRecord]:
    """Return by producer the batch whose sequence or epoch the log's active producers need."""
    return {
        producer_id: LastRecord(
            entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch
        )
        for producer_id, entry in log.producers.producers.items()
    }
