"""One partition in remote storage, for readers without a broker. Pure.

Brokers use the same lineage (`tidelog.remote.reading.lineage`), so that both read the same records.
"""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.store import CacheQueries
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.remote.reading.served_parts import served_parts
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True)
class PartitionTier:
    """The remote segments of one partition.

    `lineage` contains the leader epochs of the log, oldest first. `metadata` is shared, and receives the
    metadata of later segments.
    """

    partition: TopicIdPartition
    lineage: tuple[EpochEntry, ...]
    metadata: CacheQueries

    @property
    def epochs(self) -> LeaderEpochCache:
        """The lineage as a cache for queries."""
        return LeaderEpochCache.of(self.lineage)

    @property
    def segments(self) -> list[RemoteLogSegmentMetadata]:
        """Every finished segment that is not being deleted, by start offset, of any lineage."""
        segments = self.metadata.list_remote_log_segments(self.partition)
        return [segment for segment in segments if segment.state is _FINISHED]

    def parts(self, start_offset: Offset, end_offset: Offset) -> list[SegmentPart]:
        """Return the parts without a gap from `start_offset` up to `end_offset` (exclusive) or less."""
        return served_parts(self.metadata, self.partition, self.lineage, start_offset, end_offset)

    def next_served(self, offset: Offset) -> Offset | None:
        """Return the first served offset at or after `offset`; None if there is none."""
        starts = [offset, *(epoch.start_offset for epoch in self.lineage)]
        starts += [segment.start_offset for segment in self.segments]
        for start in sorted({start for start in starts if start >= offset}):
            if self.parts(start, start + 1):
                return start
        return None
