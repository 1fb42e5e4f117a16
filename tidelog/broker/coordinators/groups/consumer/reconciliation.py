"""Brings the current assignment of a member one step nearer to its target assignment.

A member first revokes the partitions that its target lacks: it stays in its epoch, in state
UNREVOKED_PARTITIONS, until a heartbeat shows that it does not own them any more. Then it advances to the
epoch of the target and gets the partitions that no other member owns. If some are still owned, it is in state
UNRELEASED_PARTITIONS, and later heartbeats add them.

Source: CurrentAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.consumer.member import AssignedPartitions, ConsumerMember, MemberState
from tidelog.broker.coordinators.groups.consumer.partition_epochs import NOT_OWNED
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.errors import ErrorCode, KafkaError

_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The values on which the next step of a member depends.

    `owned` are the partitions that the member reports as owned; None if it reports none. `partition_epoch`
    returns the epoch at which a partition is owned. `subscription_changed` is true if the member may not
    subscribe to all of its topics any more.
    """

    target_epoch: int
    target: TargetPartitions
    subscribed: Set[UUID]
    partition_epoch: Callable[[UUID, int], int]
    owned: TargetPartitions | None
    subscription_changed: bool = False

    def next_step(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member after its next step. Raise FENCED_MEMBER_EPOCH if its state is unknown."""
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch != self.target_epoch:
                    return self._advance(member)
                return self._unsubscribe(member) if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._owns_any(member.pending_revocation):
                    return self._unsubscribe(member) if self.subscription_changed else member
                return self._advance(member)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._advance(member)
        if self.owned is None or self.owned:
            text = (
                "The consumer group member is in a unknown state. The member must abandon all its partitions "
                "and rejoin."
            )
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return self._advance(replace(member, member_epoch=self.target_epoch))

    def _owns_any(self, partitions: AssignedPartitions) -> bool:
        """Return whether the member may still own one of `partitions`."""
        if self.owned is None:
            return True
        return any(
            not partitions.get(topic_id, {}).keys().isdisjoint(indexes)
            for topic_id, indexes in self.owned.items()
        )

    def _unsubscribe(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke the partitions of topics that the member does not subscribe to, in the same epoch."""
        dropped = {
            topic_id: epochs
            for topic_id, epochs in member.assigned.items()
            if topic_id not in self.subscribed
        }
        if not dropped:
            return member
        kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in dropped}
        pending = dict(member.pending_revocation)
        for topic_id, epochs in dropped.items():
            pending[topic_id] = {**pending.get(topic_id, {}), **epochs}
        if self._owns_any(pending):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_member_epoch=member.member_epoch,
                assigned=kept,
                pending_revocation=pending,
            )
        return replace(member, previous_member_epoch=member.member_epoch, assigned=kept)

    def _advance(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke what the target lacks; if there is nothing to revoke, advance to the epoch of the target."""
        kept: dict[UUID, dict[int, int]] = {}
        revoked: dict[UUID, dict[int, int]] = {}
        free: dict[UUID, list[int]] = {}
        is_waiting = False
        for topic_id in dict.fromkeys((*self.target, *member.assigned)):
            wanted = self.target.get(topic_id, _NONE) if topic_id in self.subscribed else _NONE
            current = member.assigned.get(topic_id, {})
            if keeps := {index: epoch for index, epoch in current.items() if index in wanted}:
                kept[topic_id] = keeps
            if revokes := {index: epoch for index, epoch in current.items() if index not in wanted}:
                revoked[topic_id] = revokes
            missing = sorted(wanted - current.keys())
            available = [index for index in missing if self._is_free(member, topic_id, index)]
            is_waiting = is_waiting or len(available) < len(missing)
            if available:
                free[topic_id] = available
        if revoked and self._owns_any(revoked):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_member_epoch=member.member_epoch,
                assigned=kept,
                pending_revocation=revoked,
            )
        for topic_id, indexes in free.items():
            kept.setdefault(topic_id, {}).update(dict.fromkeys(indexes, self.target_epoch))
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            member_epoch=self.target_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation={},
        )

    def _is_free(self, member: ConsumerMember, topic_id: UUID, index: int) -> bool:
        """Return whether no other member owns a partition."""
        return self.partition_epoch(topic_id, index) == NOT_OWNED or index in member.pending_revocation.get(
            topic_id, {}
        )
