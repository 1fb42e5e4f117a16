"""A replica of a tiered partition, as the RemoteLogManager is given it, and the role it has."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.protocol.ids import LeaderEpoch
from tidelog.remote.log_manager.copy_plan import LocalSegment
from tidelog.remote.segment_metadata import TopicIdPartition
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment


@dataclass(frozen=True, slots=True)
class TieredReplica:
    """The log of a partition whose topic may be tiered, in one leader epoch."""

    topic_id_partition: TopicIdPartition
    log: PartitionLog
    leader_epoch: LeaderEpoch


class Role:
    """A replica while it is leader or follower in one epoch; over for good once it `is_current` no more.

    Every step of a task asks before it is taken. So a leader of an old epoch, which was busy while another
    one was elected, finishes nothing.
    """

    __slots__ = ("is_current", "is_leader", "replica")

    def __init__(self, replica: TieredReplica, *, is_leader: bool) -> None:
        self.replica = replica
        self.is_leader = is_leader
        self.is_current = True

    def continues_as(self, replica: TieredReplica, *, is_leader: bool) -> bool:
        """Whether a change that was heard of changes nothing for this role."""
        mine = self.replica
        return (
            self.is_current
            and self.is_leader is is_leader
            and mine.log is replica.log
            and mine.leader_epoch == replica.leader_epoch
        )


def local_segments(log: PartitionLog) -> list[LocalSegment]:
    """The segments of a log, oldest first; the last one is active."""
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    return [
        LocalSegment(segment.base_offset, end, segment.size_bytes, segment.largest_timestamp())
        for segment, end in zip(segments, ends, strict=True)
    ]


def find_segment(log: PartitionLog, wanted: LocalSegment) -> LogSegment | None:
    """The segment that was planned for, if it is still in the log, sealed and the same."""
    segment = log.segments.floor(wanted.base_offset)
    if segment is None or segment.base_offset != wanted.base_offset:
        return None
    following = log.segments.higher(segment.base_offset)
    is_same = following is not None and following.base_offset == wanted.end_offset
    return segment if is_same and segment.size_bytes == wanted.size_bytes else None
