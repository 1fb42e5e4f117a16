"""The racks of members and partitions: a member reads from a replica in its own rack if it can (KIP-881).

A partition is near a member if one of its replicas is in the member's rack. Replicas that are not in the ISR
count too: members do not rebalance when the ISR changes. They do when a broker stops: its rack is not in the
metadata then.

Source: AbstractPartitionAssignor and AbstractStickyAssignor of Apache Kafka, KIP-881.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.clients.groups.assignors.subscription import PartitionRacks, Subscription
from tidelog.protocol.ids import TopicPartition

_NOWHERE: Final[frozenset[str]] = frozenset()


class RackMatching:
    """Which partitions are near which members."""

    def __init__(
        self, members: Mapping[str, Subscription], partitions: Iterable[TopicPartition], racks: PartitionRacks
    ) -> None:
        self._member_racks = {
            member_id: subscription.rack_id
            for member_id, subscription in members.items()
            if subscription.rack_id
        }
        self._partition_racks: dict[TopicPartition, frozenset[str]] = (
            {partition: racks.get(partition, _NOWHERE) for partition in partitions}
            if self._member_racks
            else {}
        )

    def is_useful(self) -> bool:
        """Return whether the choice of the member matters: not if every rack has every partition."""
        every_rack = _NOWHERE.union(*self._partition_racks.values())
        if every_rack.isdisjoint(self._member_racks.values()):
            return False
        return any(racks != every_rack for racks in self._partition_racks.values())

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack, and the partition has no replica in it."""
        rack = self._member_racks.get(member_id)
        return rack is not None and rack not in self._partition_racks[partition]

    def next_near(self, partition: TopicPartition, member_ids: Sequence[str], start: int) -> int | None:
        """Return the position of the first member near `partition`, beginning at `start`; None if none is."""
        racks = self._partition_racks[partition]
        for step in range(len(member_ids) if racks else 0):
            position = (start + step) % len(member_ids)
            if self._member_racks.get(member_ids[position]) in racks:
                return position
        return None

    def fewest_members_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions, those near the fewest members first."""
        members_in: dict[str, int] = {}
        for rack in self._member_racks.values():
            members_in[rack] = members_in.get(rack, 0) + 1
        return sorted(
            partitions,
            key=lambda partition: sum(members_in.get(rack, 0) for rack in self._partition_racks[partition]),
        )
