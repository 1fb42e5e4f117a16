"""One member of a share group: its subscription and its current assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.consumer.member import MemberState
from tidelog.broker.coordinators.groups.epochs import LEAVE_EPOCH
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.members.topic_names import NO_TOPIC_NAMES, TopicNames
from tidelog.protocol.coordinator_records.share_group import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareTopicPartitions,
)

MEMBER_BYTES: Final = 1_200
"""The overhead of a member in bytes: objects, keys, a deadline."""
_TOPIC_BYTES: Final = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member. It is replaced, never modified."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: TopicNames = NO_TOPIC_NAMES
    assigned: TargetPartitions = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The memory of the member without its partitions, which the cluster bounds."""
        names = self.subscribed_topic_names.size_bytes(_TOPIC_BYTES)
        return MEMBER_BYTES + len(self.member_id) + len(self.client_id) + len(self.rack_id or "") + names

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has the target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def reconciled(self, epoch: int, target: TargetPartitions, subscribed: frozenset[UUID]) -> ShareMember:
        """Return the member with the partitions of `target` that it subscribes to, at `epoch`."""
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed}
        if epoch == self.member_epoch:
            return replace(self, assigned=assigned)
        return replace(
            self,
            state=MemberState.STABLE,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
        )

    def with_metadata(self, value: ShareGroupMemberMetadataValue, names: TopicNames) -> ShareMember:
        """Return the member with the client and the subscription of a record; `names` are its topics."""
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=names,
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue | None) -> ShareMember:
        """Return the member with the current assignment of a record; None has deleted it."""
        if value is None:
            return replace(self, member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned={})
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=partitions_of(value.assigned_partitions),
        )


def names_of(member: ShareMember | None) -> TopicNames:
    """Return the topics to which a member subscribes; none without a member."""
    return NO_TOPIC_NAMES if member is None else member.subscribed_topic_names


def partitions_of(topics: Iterable[ShareTopicPartitions]) -> Mapping[UUID, frozenset[int]]:
    """Return the partitions of a record by topic id."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}
