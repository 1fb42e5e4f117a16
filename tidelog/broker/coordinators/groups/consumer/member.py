"""One member of a consumer group: its subscription and its current assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import IntEnum
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.epochs import LEAVE_EPOCH
from tidelog.broker.coordinators.groups.members.topic_names import NO_TOPIC_NAMES, TopicNames
from tidelog.protocol.coordinator_records.consumer_group import (
    AssignedTopicPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

AssignedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which it was assigned to its member (KIP-1251)."""

STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that has left and may join again with its partitions."""


class MemberState(IntEnum):
    """How far a member has reconciled to its target assignment; the numbers are those of the records.

    The transitions, all in `reconciliation`:

        STABLE -> UNREVOKED_PARTITIONS        the target lacks partitions that the member owns
        STABLE -> UNRELEASED_PARTITIONS       the target has partitions that other members own
        UNREVOKED_PARTITIONS -> UNRELEASED_PARTITIONS, STABLE   the member has revoked its partitions
        UNRELEASED_PARTITIONS -> STABLE       all partitions of the target are assigned
        UNRELEASED_PARTITIONS -> UNREVOKED_PARTITIONS           there is a new target
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member. It is replaced, never modified.

    `assigned` are the partitions that it owns or may take; `pending_revocation` those that it must revoke.
    `classic` is set for a member that uses the classic protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: TopicNames = NO_TOPIC_NAMES
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: AssignedPartitions = field(default_factory=dict)
    pending_revocation: AssignedPartitions = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    @property
    def classic_protocols(self) -> frozenset[str]:
        """The names of the classic protocols that the member supports."""
        protocols = () if self.classic is None else self.classic.supported_protocols
        return frozenset(protocol.name for protocol in protocols)

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member sends JoinGroup, SyncGroup and Heartbeat."""
        return self.classic is not None

    def has_client(self, client_id: str, client_host: str) -> bool:
        """Return whether the member uses the consumer protocol from this client."""
        return self.classic is None and self.client_id == client_id and self.client_host == client_host

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has all partitions of the target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Return the epoch at which the member got a partition; None if it neither owns nor revokes it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue, names: TopicNames) -> ConsumerMember:
        """Return the member with the client and the subscription of a record; `names` are its topics."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=names,
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> ConsumerMember:
        """Return the member with the current assignment of a record; None has deleted it."""
        if value is None:
            return replace(
                self,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned={},
                pending_revocation={},
            )
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_partitions(value.assigned_partitions, value.member_epoch),
            pending_revocation=_partitions(value.partitions_pending_revocation, value.member_epoch),
        )


def _partitions(topics: Iterable[AssignedTopicPartitions], default_epoch: int) -> AssignedPartitions:
    """Return the partitions of a record; those without an epoch of their own get the member's."""
    return {
        topic.topic_id: dict(
            zip(topic.partitions, topic.assignment_epochs, strict=True)
            if topic.assignment_epochs is not None and len(topic.assignment_epochs) == len(topic.partitions)
            else dict.fromkeys(topic.partitions, max(default_epoch, 0))
        )
        for topic in topics
    }
