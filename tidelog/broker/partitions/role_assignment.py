"""Makes partitions leaders and followers as the metadata assigns, and defers leaders that must be recovered.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.image import LeaderRecoveryState, PartitionImage
from tidelog.protocol.ids import BrokerId, TopicPartition


class RoleAssignment:
    """Gives each partition of a node its role, and adds it to the changes of which listeners are notified."""

    def __init__(self, node_id: BrokerId) -> None:
        self._node_id = node_id
        self.awaiting_recovery: set[TopicPartition] = set()
        """Partitions that this node leads after their logs have been recovered from remote storage."""

    def assign(self, partition: Partition, partition_image: PartitionImage, changes: RoleChanges) -> None:
        """Make the partition leader or follower, and add it to `changes` if listeners must know."""
        if self.awaiting_recovery:
            self.awaiting_recovery.discard(partition.topic_partition)
        if partition_image.leader == self._node_id:
            if _must_recover(partition, partition_image):
                partition.end_role()
                self.awaiting_recovery.add(partition.topic_partition)
                changes.followers.append(partition)
                return
            partition.make_leader(partition_image)
            changes.leaders.append(partition)
        elif partition.make_follower(partition_image):
            changes.followers.append(partition)

    def must_lead_when_recovered(self, partition: Partition, partition_image: PartitionImage) -> bool:
        """Return whether the partition waits for its recovery, and this node is still its leader."""
        return partition.topic_partition in self.awaiting_recovery and partition_image.leader == self._node_id

    def lead_recovered(
        self, partition: Partition, partition_image: PartitionImage, changes: RoleChanges
    ) -> None:
        """Make a partition the leader after its log has been recovered."""
        self.awaiting_recovery.discard(partition.topic_partition)
        partition.make_leader(partition_image)
        changes.leaders.append(partition)

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions that left this node."""
        if self.awaiting_recovery:
            self.awaiting_recovery.difference_update(topic_partitions)


def _must_recover(partition: Partition, partition_image: PartitionImage) -> bool:
    """Return whether this node may become leader only with the log that is in remote storage.

    It was elected without the records of the partition: the topic is restored, or the election was unclean.
    A log without local records may also be the remains of an interrupted recovery. The records of a mounted
    topic are never local.
    """
    log = partition.log
    if partition.leader is not None or not log.remote_log_enabled:
        return False
    return log.config.is_mounted or (
        partition_image.leader_recovery_state == LeaderRecoveryState.RECOVERING
        and log.local_log_start_offset == log.log_end_offset
    )
