"""The consumer groups of one partition of `__consumer_offsets`: commands, replay and deadlines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Protocol

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.classic_members import ClassicMembers
from tidelog.broker.coordinators.groups.consumer.command_context import CommandContext
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.conversion_port import GroupConversion
from tidelog.broker.coordinators.groups.consumer.description import describe_consumer_group
from tidelog.broker.coordinators.groups.consumer.expressions import Expressions
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.heartbeat import HeartbeatCommand, HeartbeatReply
from tidelog.broker.coordinators.groups.consumer.member import MemberState
from tidelog.broker.coordinators.groups.consumer.member_lookup import MemberLookup
from tidelog.broker.coordinators.groups.consumer.membership_update import MembershipUpdate
from tidelog.broker.coordinators.groups.consumer.removal import MemberRemoval
from tidelog.broker.coordinators.groups.consumer.replay import deletes_group, replay_tombstone, replay_value
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression
from tidelog.broker.coordinators.groups.consumer.target_assignment import TargetAssignment
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey
from tidelog.broker.coordinators.groups.group_table import GroupTable
from tidelog.broker.coordinators.groups.members.computations import Computation
from tidelog.broker.coordinators.groups.members.computed_target import ComputedTarget
from tidelog.broker.coordinators.groups.members.prepared_subscription import (
    NOT_PREPARED,
    PreparedSubscription,
)
from tidelog.broker.coordinators.groups.members.topic_names import NamesOfCommand, is_wide
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.consumer_group_describe import DescribedGroup
from tidelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.steps import Steps


class ConsumerGroups(Protocol):
    """The consumer groups of a partition by id; `tidelog.broker.coordinators.groups.registry` has them."""

    @property
    def consumers(self) -> GroupTable[ConsumerGroup]:
        """The consumer groups."""
        ...

    def create_consumer(self, group_id: str) -> ConsumerGroup:
        """Create a group without members, in place of a classic group with only offsets."""
        ...


class ConsumerCoordinator:
    """The commands and the replay of consumer groups."""

    def __init__(
        self,
        groups: ConsumerGroups,
        conversion: GroupConversion,
        settings: ConsumerGroupSettings,
        topics: Topics,
        timers: MemberTimers,
        new_member_id: Callable[[], str],
    ) -> None:
        self._groups = groups
        self._conversion = conversion
        self._settings = settings
        self._topics = topics
        self._timers = timers
        self._names = NamesOfCommand()
        self._targets = TargetAssignment(topics)
        self._expressions = Expressions(settings, topics)
        self._removal = MemberRemoval(conversion, topics, timers)
        context = CommandContext(
            groups=conversion,
            settings=settings,
            topics=topics,
            timers=timers,
            update=MembershipUpdate(settings, topics, timers, self._expressions, self._targets, self._names),
            lookup=MemberLookup(settings, timers, self._names),
            removal=self._removal,
            expressions=self._expressions,
            new_member_id=new_member_id,
        )
        self._heartbeat = HeartbeatCommand(context)
        self.classic_members = ClassicMembers(context)

    # Commands

    def must_prepare(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether `prepare` must run before a heartbeat, because it takes time for each topic."""
        if is_wide(request.subscribed_topic_names):
            return True
        group = self._groups.consumers.find(request.group_id)
        return group is not None and group.subscriptions.are_wide and group.epochs.must_check_metadata

    def prepare(self, client: Client, request: ConsumerGroupHeartbeatRequest) -> Steps[PreparedSubscription]:
        """Prepare a heartbeat in steps; see `HeartbeatCommand.prepare`."""
        return self._heartbeat.prepare(self._groups.consumers.find(request.group_id), client, request)

    def heartbeat(
        self,
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        now: Moment,
        prepared: PreparedSubscription = NOT_PREPARED,
    ) -> Outcome[HeartbeatReply]:
        """Return the response of a heartbeat; see `HeartbeatCommand.heartbeat`."""
        return self._heartbeat.heartbeat(client, request, version, now, prepared)

    def take_computations(self) -> list[Computation[ConsumerGroup, ComputedTarget]]:
        """Return the target assignments that commands have requested, after their records were appended.

        The caller must compute each, and then call `on_computed` or `on_not_computed`.
        """
        return self._targets.computations.take(self._groups.consumers.find)

    def on_computed(
        self, computation: Computation[ConsumerGroup, ComputedTarget], computed: ComputedTarget, now: Moment
    ) -> Writes:
        """Write a target assignment that was computed in steps, unless the group was deleted."""
        if self._groups.consumers.find(computation.group.group_id) is not computation.group:
            self.on_not_computed(computation)
            return NO_WRITES
        return self._targets.on_computed(computation, computed, now)

    def on_not_computed(self, computation: Computation[ConsumerGroup, ComputedTarget]) -> None:
        """Note that a target assignment was not computed; a later heartbeat starts again."""
        self._targets.computations.end(computation.group.group_id)

    def on_resolved(self, group_id: str, resolved: Mapping[str, ResolvedExpression]) -> Writes:
        """Write the topics that match the expressions of a group."""
        group = self._groups.consumers.find(group_id)
        if group is None:
            self._expressions.on_not_resolved(group_id)
            return NO_WRITES
        return Writes(tuple(self._expressions.on_resolved(group, resolved)))

    def on_not_resolved(self, group_id: str) -> None:
        """Note that the expressions of a group could not be resolved."""
        self._expressions.on_not_resolved(group_id)

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Return the description of a group; an unknown group is an error in it."""
        try:
            group = self._conversion.existing(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
        return (yield from describe_consumer_group(group, self._topics, self._settings.default_assignor))

    # Events

    def on_topics_changed(self, names: Set[str], created_version: int | None) -> None:
        """Let the groups of changed topics check the metadata.

        `created_version` is the version of the metadata if topics were created, else None.
        """
        self._topics.on_topics_changed(names)
        if created_version is not None:
            self._expressions.on_topics_created(created_version)
        for group in self._groups.consumers:
            if group.subscriptions.include_any(names):
                group.epochs.on_topics_changed()

    def on_deadline(self, key: DeadlineKey) -> Writes:
        """Remove the member whose deadline has expired."""
        group = self._groups.consumers.find(key.group_id)
        return NO_WRITES if group is None else self._removal.on_deadline(group, key.member_id, key.kind)

    def finish_loading(self, now: Moment) -> None:
        """Start the sessions of all members, and the time of those that must revoke partitions.

        Topics may have been created while the group had no coordinator, so expressions are resolved again.
        """
        self._expressions.on_topics_created(self._topics.version)
        for group in self._groups.consumers:
            timeout_ms = self._settings.of_group(group.group_id).session_timeout_ms
            for member in group.members.values():
                self._timers.keep_alive(group.group_id, member.member_id, timeout_ms, now)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._timers.expect_revocation(group.group_id, member, now)

    # Replay

    def replay(self, record: ConsumerGroupRecord) -> None:
        """Apply one record of the log."""
        group_id = record.key.group_id
        group = self._groups.consumers.find(group_id)
        if record.value is not None:
            replay_value(group or self._groups.create_consumer(group_id), record, self._names)
        elif deletes_group(record):
            self._groups.consumers.remove(group_id)
        elif group is not None:
            replay_tombstone(group, record)
