"""A replica of a tiered partition, and its role."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class TieredReplica:
    """The log of a partition whose topic may be tiered, in one leader epoch."""

    topic_id_partition: TopicIdPartition
    log: PartitionLog
    leader_epoch: LeaderEpoch


class Role:
    """The role of a replica, leader or follower, in one leader epoch.

    `is_current` becomes False when the role ends, and never True again. Every step of a task checks it first.
    Therefore a leader of an old epoch, which was busy during an election, finishes nothing.
    """

    __slots__ = ("is_current", "is_leader", "replica")

    def __init__(self, replica: TieredReplica, *, is_leader: bool) -> None:
        self.replica = replica
        self.is_leader = is_leader
        self.is_current = True

    def end(self) -> None:
        """End the role: no further step of its tasks begins."""
        self.is_current = False

    def continues_as(self, replica: TieredReplica, *, is_leader: bool) -> bool:
        """Return whether `replica` as leader or follower has the same role as this one."""
        return (
            self.is_current
            and self.is_leader is is_leader
            and self.replica.log is replica.log
            and self.replica.leader_epoch == replica.leader_epoch
        )
