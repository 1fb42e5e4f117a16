"""The steps that a heartbeat and a JoinGroup of a classic member have in common.

Source: GroupMetadataManager.consumerGroupHeartbeat, updateSubscriptionMetadata, maybeUpdateTargetAssignment
and maybeReconcile of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.expressions import ExpressionChange, Expressions
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember, MemberState
from tidelog.broker.coordinators.groups.consumer.reconciliation import Reconciliation
from tidelog.broker.coordinators.groups.consumer.records import (
    current_assignment,
    group_epoch,
    member_metadata,
    partition_metadata_tombstone,
)
from tidelog.broker.coordinators.groups.consumer.target_assignment import (
    GroupChange,
    Target,
    TargetAssignment,
    last_target,
)
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.members.topic_names import NamesOfCommand
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.moment import Moment

logger = logging.getLogger(__name__)


class Subscribed(NamedTuple):
    """A member whose subscription is up to date, and what follows for its group.

    `previous` is the member before.
    """

    change: GroupChange
    previous: ConsumerMember
    has_changed: bool


class MembershipUpdate:
    """Updates the subscription of a member, the epoch and target of its group, and its assignment."""

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        topics: Topics,
        timers: MemberTimers,
        expressions: Expressions,
        targets: TargetAssignment,
        names: NamesOfCommand,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._timers = timers
        self._expressions = expressions
        self._targets = targets
        self._names = names

    def subscribe(
        self,
        group: ConsumerGroup,
        previous: ConsumerMember,
        member: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> Subscribed:
        """Add the records of a changed member, and of a new group epoch if the subscriptions changed."""
        is_changed = previous is not member and previous != member
        names_changed = is_changed and previous.subscribed_topic_names != member.subscribed_topic_names
        if is_changed:
            records.append(member_metadata(group.group_id, member))
            self._names.add(member.subscribed_topic_names)
        expression_change = self._expressions.change(group, previous, member, records)
        starts_epoch = names_changed or (
            expression_change is ExpressionChange.CHANGED_AND_RESOLVED
            or (member.uses_classic_protocol and expression_change is ExpressionChange.CHANGED)
        )
        change = self._change(group, previous, member, records, starts_epoch)
        has_changed = names_changed or expression_change is not ExpressionChange.NONE
        return Subscribed(change, previous, has_changed)

    def _change(
        self,
        group: ConsumerGroup,
        previous: ConsumerMember,
        member: ConsumerMember,
        records: list[CoordinatorRecord],
        starts_epoch: bool,
    ) -> GroupChange:
        replaced_id = group.static_members.get(member.instance_id) if member.instance_id else None
        if replaced_id == member.member_id:
            replaced_id = None
        counted = group.members.get(member.member_id if replaced_id is None else replaced_id)
        subscriptions = group.subscriptions
        if counted is None or (previous is not member and previous != member):
            subscriptions = subscriptions.copy()
            subscriptions.replace(counted, member)
            subscriptions.drop_unused_expressions()
        epoch = group.epochs.group_epoch
        if starts_epoch or group.epochs.must_check_metadata:
            metadata_hash = self._topics.hash_of(*subscriptions.name_sets())
            if starts_epoch or metadata_hash != group.epochs.metadata_hash:
                epoch += 1
                records.append(group_epoch(group.group_id, epoch, metadata_hash))
                logger.info("Group %s: group epoch %d, by member %s", group.group_id, epoch, member.member_id)
            group.epochs.on_metadata_checked(epoch)
            if group.has_partition_metadata_record:
                records.append(partition_metadata_tombstone(group.group_id))
        return GroupChange(group, epoch, subscriptions, member, replaced_id)

    def assign(
        self,
        subscribed: Subscribed,
        owned: TargetPartitions | None,
        records: list[CoordinatorRecord],
        now: Moment,
    ) -> ConsumerMember:
        """Return the member after its next step to the target; add the records of target and member."""
        target = self._target(subscribed, now)
        records += target.records
        return self.reconcile(subscribed, target, owned, records, now)

    def reconcile(
        self,
        subscribed: Subscribed,
        target: Target,
        owned: TargetPartitions | None,
        records: list[CoordinatorRecord],
        now: Moment,
    ) -> ConsumerMember:
        """Return the member after its next step to `target`; add its record."""
        group, member = subscribed.change.group, subscribed.change.member
        if not subscribed.has_changed and member.is_reconciled_to(target.epoch):
            return member
        step = Reconciliation(
            target_epoch=target.epoch,
            target=target.partitions,
            subscribed=self._topics.ids_of(*subscribed.change.subscriptions.name_sets_of(member)),
            partition_epoch=group.partition_epochs.of,
            owned=owned,
            subscription_changed=subscribed.has_changed,
        )
        updated = step.next_step(member)
        if updated != member:
            records.append(current_assignment(group.group_id, updated))
            if not updated.uses_classic_protocol:
                if updated.state is MemberState.UNREVOKED_PARTITIONS:
                    self._timers.expect_revocation(group.group_id, updated, now)
                else:
                    self._timers.end_revocation(group.group_id, updated.member_id)
        return updated

    def _target(self, subscribed: Subscribed, now: Moment) -> Target:
        """Return the target of the member: a new one if the group has a new epoch, else the last one."""
        change = subscribed.change
        group = change.group
        interval_ms = self._settings.of_group(group.group_id).assignment_interval_ms
        if group.epochs.keeps_assignment(change.epoch, interval_ms, now.wall_ms):
            return last_target(change)
        assignor = group.preferred_assignor(subscribed.previous, change.member)
        return self._targets.of_change(change, assignor or self._settings.default_assignor, now)
