"""The parts of segments that serve a range of offsets to readers without a broker. Pure.

Brokers use the same lineage (`tidelog.remote.reading.lineage`), so that both read the same records.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.protocol.ids import Offset
from tidelog.remote.ports.metadata_manager import SegmentQueries
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.reading.lineage import SegmentPart, part_at
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache


def served_parts(
    manager: SegmentQueries,
    partition: TopicIdPartition,
    lineage: Iterable[EpochEntry],
    start_offset: Offset,
    end_offset: Offset,
) -> list[SegmentPart]:
    """Return the consecutive parts from `start_offset` up to `end_offset` (exclusive) or less.

    `lineage`: the leader epochs of the log with their starts, from its leader. The list is empty if
    `start_offset` is not in remote storage; records after its last part must be read from brokers.
    """
    epochs = LeaderEpochCache.of(lineage)
    parts: list[SegmentPart] = []
    offset = start_offset
    while offset < end_offset:
        part = part_at(manager, partition, epochs, offset)
        if part is None or part.end_offset <= offset:
            break
        parts.append(part._replace(end_offset=min(part.end_offset, end_offset)))
        offset = part.end_offset
    return parts
