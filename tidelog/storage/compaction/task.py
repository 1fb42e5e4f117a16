"""One round of compaction as a worker process receives it: plain values, no open files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.storage.compaction.last_records import LastRecord
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.segment.txn_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """The segments up to `end_offset`, dirty from `first_dirty_offset` on.

    Bounds: as many `aborted` transactions as the indexes of these segments have, and one of `last_records`
    for each active producer of the log.
    """

    directory: str
    config: LogConfig
    sources: Sequence[SourceSegment]
    first_dirty_offset: Offset
    end_offset: Offset
    aborted: Sequence[AbortedTransaction]
    """Those that overlap the segments, by their first offsets."""
    last_records: Mapping[ProducerId, LastRecord]
    """By producer, the batch whose sequence or epoch the log's active producers need."""
    now_ms: int
    io_buffer_bytes: int
    """How many bytes are read at a time, if it is more than the 4 MiB that are read in any case."""

    @property
    def dirty_count_max(self) -> int:
        """How many records the dirty part has at most."""
        return self.end_offset - self.first_dirty_offset
