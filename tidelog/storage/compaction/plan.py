"""What a thread needs to know to compact a log, taken down by the loop that owns the log.

Only files of sealed segments are read by the plan; they do not change, and stay readable when the log lets go
of them. Whether the outcome may still be used the loop finds out with `is_current`.
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
    """How much is read at a time, and written; a longer batch is read whole."""


def plan_cleaning(log: PartitionLog, cleanable: Cleanable, now_ms: int, io_buffer_bytes: int) -> CleaningPlan:
    """The plan of a round. I/O: the transaction indexes. Errors: KafkaError when the disk fails."""
    segments = [segment for segment in log.segments if segment.base_offset < cleanable.end_offset]
    ends = [segment.base_offset for segment in segments[1:]] + [cleanable.end_offset]
    sources = [SourceSegment.of(segment, end) for segment, end in zip(segments, ends, strict=True)]
    with log.storage_errors("compaction"):
        aborted = aborted_transactions(log.segments, segments[0].base_offset, cleanable.end_offset)
    return CleaningPlan(
        fs=log.fs,
        directory=log.directory,
        config=log.config,
        generation=log.generation,
        sources=sources,
        first_dirty_offset=cleanable.first_dirty_offset,
        end_offset=cleanable.end_offset,
        aborted=aborted,
        now_ms=now_ms,
        io_buffer_bytes=io_buffer_bytes,
    )


def is_current(log: PartitionLog, plan: CleaningPlan) -> bool:
    """Whether nothing has happened to the log that makes the plan void; from any thread."""
    return log.generation == plan.generation and log.failure is None and log.config.is_compacted


def last_records(log: PartitionLog) -> Mapping[ProducerId, LastRecord]:
    """Of which batches the log's active producers need the sequence or the epoch."""
    return {
        producer_id: LastRecord(
            entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch
        )
        for producer_id, entry in log.producers.producers.items()
    }
