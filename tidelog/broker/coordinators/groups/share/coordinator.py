"""The share groups of one partition of `__consumer_offsets`: commands, replay and deadlines."""

from __future__ import annotations

from collections.abc import Set

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey
from tidelog.broker.coordinators.groups.members.computations import Computation
from tidelog.broker.coordinators.groups.members.computed_target import ComputedTarget
from tidelog.broker.coordinators.groups.members.prepared_subscription import PreparedSubscription
from tidelog.broker.coordinators.groups.members.topic_names import NamesOfCommand, is_wide
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.groups.share.config import ShareGroupSettings
from tidelog.broker.coordinators.groups.share.description import describe_share_group
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.heartbeat import ShareHeartbeatCommand
from tidelog.broker.coordinators.groups.share.initialization_times import InitializationTimes
from tidelog.broker.coordinators.groups.share.lookup import ShareGroupLookup, ShareGroups
from tidelog.broker.coordinators.groups.share.offset_commands import ShareOffsetCommands
from tidelog.broker.coordinators.groups.share.replay import (
    deletes_share_group,
    replay_share_tombstone,
    replay_share_value,
)
from tidelog.broker.coordinators.groups.share.timers import ShareMemberTimers
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES
from tidelog.protocol.coordinator_records.share_group import ShareGroupStatePartitionMetadataValue
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.share_group_describe import DescribedGroup
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tidelog.protocol.steps import Steps


class ShareGroupCoordinator:
    """The commands and the replay of share groups."""

    def __init__(
        self, groups: ShareGroups, settings: ShareGroupSettings, topics: Topics, timers: ShareMemberTimers
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._topics = topics
        self._timers = timers
        self._lookup = ShareGroupLookup(groups)
        self._times = InitializationTimes()
        self._names = NamesOfCommand()
        self._heartbeat = ShareHeartbeatCommand(
            self._lookup, settings, topics, timers, self._times, self._names
        )
        self.heartbeat = self._heartbeat.heartbeat
        self.offsets = ShareOffsetCommands(groups, self._lookup, topics, self._times)

    # Commands

    def must_prepare(self, request: ShareGroupHeartbeatRequest) -> bool:
        """Return whether `prepare` must run before a heartbeat, because it takes time for each topic."""
        if is_wide(request.subscribed_topic_names):
            return True
        group = self._groups.shares.find(request.group_id)
        return group is not None and group.subscribed.is_wide and group.epochs.must_check_metadata

    def prepare(self, client: Client, request: ShareGroupHeartbeatRequest) -> Steps[PreparedSubscription]:
        """Prepare a heartbeat in steps; see `ShareHeartbeatCommand.prepare`."""
        return self._heartbeat.prepare(self._groups.shares.find(request.group_id), client, request)

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Return the description of a group; an unknown group is an error in it."""
        try:
            group = self._lookup.existing(group_id, "Group")
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
        assignor = self._settings.broker.group_share_assignors[0]
        return (yield from describe_share_group(group, self._topics, assignor))

    def take_computations(self) -> list[Computation[ShareGroup, ComputedTarget]]:
        """Return the target assignments that commands have requested, after their records were appended.

        The caller must compute each, and then call `on_computed` or `on_not_computed`.
        """
        return self._heartbeat.targets.computations.take(self._groups.shares.find)

    def on_computed(
        self, computation: Computation[ShareGroup, ComputedTarget], computed: ComputedTarget, now: Moment
    ) -> Writes:
        """Write a target assignment that was computed in steps, unless the group was deleted."""
        if self._groups.shares.find(computation.group.group_id) is not computation.group:
            self.on_not_computed(computation)
            return NO_WRITES
        return self._heartbeat.targets.on_computed(computation, computed, now)

    def on_not_computed(self, computation: Computation[ShareGroup, ComputedTarget]) -> None:
        """Note that a target assignment was not computed; a later heartbeat starts again."""
        self._heartbeat.targets.computations.end(computation.group.group_id)

    # Events

    def on_topics_changed(self, names: Set[str]) -> None:
        """Let the groups of changed topics check the metadata."""
        for group in self._groups.shares:
            if group.is_subscribed_to_any(names):
                group.epochs.on_topics_changed()

    def on_deadline(self, key: DeadlineKey) -> Writes:
        """Remove the member whose session has expired."""
        group = self._groups.shares.find(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None:
            return NO_WRITES
        return self._heartbeat.remove(group, member)

    def finish_loading(self, now: Moment) -> None:
        """Start the sessions of all members."""
        for group in self._groups.shares:
            timeout_ms = self._settings.of_group(group.group_id).session_timeout_ms
            for member_id in group.members:
                self._timers.keep_alive(group.group_id, member_id, timeout_ms, now)

    # Replay

    def replay(self, record: ShareGroupRecord) -> None:
        """Apply one record of the log."""
        group_id = record.key.group_id
        group: ShareGroup | None = self._groups.shares.find(group_id)
        if record.value is not None:
            group = group or self._groups.shares.add(group_id)
            replay_share_value(group, record, self._names)
            if isinstance(record.value, ShareGroupStatePartitionMetadataValue):
                self._times.keep(group_id, group.state_partitions.initializing)
        elif deletes_share_group(record):
            self._groups.shares.remove(group_id)
            self._times.keep(group_id, ())
        elif group is not None:
            replay_share_tombstone(group, record)
