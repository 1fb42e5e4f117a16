"""What of a range of offsets the tier serves, segment by segment, to those who read it without a broker.

Plain. The same lineage decides as for brokers (`tidelog.remote.reading.lineage`), so that both read the same
records.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.ports.metadata_manager import SegmentQuestions
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.reading.lineage import SegmentPart, part_at
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache


def served_parts(
    manager: SegmentQuestions,
    partition: TopicIdPartition,
    lineage: Iterable[tuple[LeaderEpoch, Offset]],
    start_offset: Offset,
    end_offset: Offset,
) -> list[SegmentPart]:
    """The parts that follow each other from `start_offset` on, up to `end_offset` (exclusive) or less.

    `lineage`: the leader epochs of the log with their starts, as its leader has them. The list is empty when
    `start_offset` is not in the tier; behind its last part brokers have to be asked.
    """
    epochs = LeaderEpochCache.of(EpochEntry(*entry) for entry in lineage)
    parts: list[SegmentPart] = []
    offset = start_offset
    while offset < end_offset:
        part = part_at(manager, partition, epochs, offset)
        if part is None or part.end_offset <= offset:
            break
        parts.append(part._replace(end_offset=min(part.end_offset, end_offset)))
        offset = part.end_offset
    return parts
