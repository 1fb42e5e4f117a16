"""The streams groups of one partition of `__consumer_offsets`: commands, replay and deadlines."""

from __future__ import annotations

from collections.abc import Set

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind
from tidelog.broker.coordinators.groups.members.computations import Computation
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.streams_group_records import StreamsGroupRecord
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupSettings
from tidelog.broker.coordinators.groups.streams.description import describe_streams_group
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.heartbeat import (
    StreamsHeartbeatCommand,
    StreamsHeartbeatReply,
)
from tidelog.broker.coordinators.groups.streams.lookup import StreamsGroupLookup, StreamsGroups
from tidelog.broker.coordinators.groups.streams.member import MemberState
from tidelog.broker.coordinators.groups.streams.replay import (
    deletes_streams_group,
    replay_streams_tombstone,
    replay_streams_value,
)
from tidelog.broker.coordinators.groups.streams.target_assignment import Targets
from tidelog.broker.coordinators.groups.streams.timers import StreamsTimers
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.streams_group_describe import DescribedGroup
from tidelog.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tidelog.protocol.steps import Steps


class StreamsGroupCoordinator:
    """The commands and the replay of streams groups."""

    def __init__(
        self, groups: StreamsGroups, settings: StreamsGroupSettings, topics: Topics, timers: StreamsTimers
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._timers = timers
        self._lookup = StreamsGroupLookup(groups)
        self._heartbeat = StreamsHeartbeatCommand(self._lookup, settings, topics, timers)

    # Commands

    def heartbeat(
        self, client: Client, request: StreamsGroupHeartbeatRequest, now: Moment
    ) -> Outcome[StreamsHeartbeatReply]:
        """Return the response of a heartbeat; see `StreamsHeartbeatCommand.heartbeat`."""
        return self._heartbeat.heartbeat(client, request, now)

    def take_computations(self) -> list[Computation[StreamsGroup, Targets]]:
        """Return the target assignments that commands have requested, after their records were appended.

        The caller must compute each, and then call `on_computed` or `on_not_computed`.
        """
        return self._heartbeat.targets.computations.take(self._groups.streams.find)

    def on_computed(
        self, computation: Computation[StreamsGroup, Targets], targets: Targets, now: Moment
    ) -> Writes:
        """Write a target assignment that was computed in steps, unless the group was deleted."""
        if self._groups.streams.find(computation.group.group_id) is not computation.group:
            self.on_not_computed(computation)
            return NO_WRITES
        return Writes(tuple(self._heartbeat.targets.on_computed(computation, targets, now)))

    def on_not_computed(self, computation: Computation[StreamsGroup, Targets]) -> None:
        """Note that a target assignment was not computed; a later heartbeat starts again."""
        self._heartbeat.targets.computations.end(computation.group.group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval at which the members of a group send heartbeats."""
        return self._settings.of_group(group_id).heartbeat_interval_ms

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Return the description of a group; an unknown group is an error in it."""
        try:
            group = self._lookup.existing(group_id, "Group")
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
        return (yield from describe_streams_group(group))

    # Events

    def on_topics_changed(self, names: Set[str]) -> None:
        """Let the groups of changed topics check the metadata."""
        for group in self._groups.streams:
            if group.uses_any(names):
                group.epochs.on_topics_changed()

    def on_deadline(self, key: DeadlineKey, now: Moment) -> Writes:
        """Remove the member whose deadline has expired, or compute the first target of a group."""
        group = self._groups.streams.find(key.group_id)
        if group is None:
            return NO_WRITES
        if key.kind is DeadlineKind.STREAMS_INITIAL_DELAY:
            return self._heartbeat.on_delay_ended(group, now)
        member = group.members.get(key.member_id)
        if member is None:
            return NO_WRITES
        if key.kind is DeadlineKind.STREAMS_REVOCATION and member.state is not MemberState.UNREVOKED_TASKS:
            return NO_WRITES
        return self._heartbeat.remove(group, member)

    def finish_loading(self, now: Moment) -> None:
        """Start the sessions of all members, and the time of those that must revoke tasks."""
        for group in self._groups.streams:
            timeout_ms = self._settings.of_group(group.group_id).session_timeout_ms
            for member in group.members.values():
                self._timers.keep_alive(group.group_id, member.member_id, timeout_ms, now)
                if member.state is MemberState.UNREVOKED_TASKS:
                    self._timers.expect_revocation(group.group_id, member, now)

    # Replay

    def replay(self, record: StreamsGroupRecord) -> None:
        """Apply one record of the log."""
        group_id = record.key.group_id
        group = self._groups.streams.find(group_id)
        if record.value is not None:
            replay_streams_value(group or self._groups.create_streams(group_id), record)
        elif deletes_streams_group(record):
            self._groups.streams.remove(group_id)
            self._timers.end_delay(group_id)
        elif group is not None:
            replay_streams_tombstone(group, record)
