"""The epochs of the partitions that the members of a consumer group own."""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.member import AssignedPartitions, ConsumerMember

logger = logging.getLogger(__name__)

NOT_OWNED: Final = -1
"""The epoch of a partition that no member owns."""


class PartitionEpochs:
    """The epoch of the owner of each partition, by topic id and index.

    Invariant: a partition has an epoch while a member owns it or has not revoked it yet, and then no other
    member gets it.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._epochs: dict[UUID, dict[int, int]] = {}

    def of(self, topic_id: UUID, partition: int) -> int:
        """Return the epoch of the member that owns a partition; NOT_OWNED if none does."""
        return self._epochs.get(topic_id, {}).get(partition, NOT_OWNED)

    def add(self, member: ConsumerMember) -> None:
        """Record that a member owns its partitions, also those that it must revoke."""
        for assigned in (member.assigned, member.pending_revocation):
            self._add(assigned, member.member_epoch)

    def _add(self, assigned: AssignedPartitions, epoch: int) -> None:
        for topic_id, partitions in assigned.items():
            epochs = self._epochs.setdefault(topic_id, {})
            for partition in partitions:
                owned_at = epochs.get(partition)
                if owned_at is None or owned_at < epoch:
                    epochs[partition] = epoch
                else:
                    text = "Group %s: partition %s-%d is assigned at epoch %d and still owned at epoch %d"
                    logger.error(text, self._group_id, topic_id, partition, epoch, owned_at)

    def remove(self, member: ConsumerMember) -> None:
        """Remove the epochs of a member's partitions, except those that another member owns now."""
        for assigned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assigned.items():
                epochs = self._epochs.get(topic_id)
                if epochs is None:
                    continue
                for partition in partitions:
                    if epochs.get(partition) == member.member_epoch:
                        del epochs[partition]
                if not epochs:
                    del self._epochs[topic_id]
