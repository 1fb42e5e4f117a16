"""The membership APIs of the groups of one partition: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.classic_members import ClassicMembers
from tidelog.broker.coordinators.groups.heartbeat import HeartbeatCommand
from tidelog.broker.coordinators.groups.join import JoinCommand, JoinReply
from tidelog.broker.coordinators.groups.leave import LeaveCommand, PreparedLeave, response_of
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.sync import SyncCommand, SyncReply
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupRequest
from tidelog.protocol.steps import Steps, run_steps


class Membership:
    """The commands of members; each is implemented in the module of its API."""

    def __init__(
        self,
        groups: GroupRegistry,
        rebalance: Rebalance,
        config: GroupConfig,
        new_suffix: Callable[[], str],
        in_consumer_groups: ClassicMembers,
    ) -> None:
        """`new_suffix` returns a unique suffix for a member id."""
        self._groups = groups
        self._in_consumer_groups = in_consumer_groups
        self._rebalance = rebalance
        self._join = JoinCommand(groups, rebalance, config, new_suffix)
        self._sync = SyncCommand(groups, rebalance)
        self._heartbeat = HeartbeatCommand(groups, rebalance)
        self._leave = LeaveCommand(groups, rebalance)

    def join(
        self, client: Client, request: JoinGroupRequest, version: int, now: Moment
    ) -> Outcome[JoinReply]:
        """Return a reply that completes when the rebalance does; see `JoinCommand.join`."""
        group = self._groups.consumers.find(request.group_id)
        if group is None or group.is_empty:
            return self._join.join(client, request, version, now)
        try:
            self._join.check(request)
        except KafkaError as error:
            response = JoinGroupResponse(member_id=request.member_id, error_code=error.code)
            return Outcome(Pending.of(response))
        return self._in_consumer_groups.join(group, client, request, version, now)

    def abandon_join(self, group_id: str, reply: JoinReply, now: Moment) -> Writes:
        """Note that the client that waits for this reply to its JoinGroup has disconnected."""
        group = self._groups.get(group_id)
        return NO_WRITES if group is None else self._rebalance.on_join_abandoned(group, reply, now)

    def sync(self, request: SyncGroupRequest, now: Moment) -> Outcome[SyncReply]:
        """Return a reply that completes with the leader's assignment; see `SyncCommand.sync`."""
        group = self._groups.consumers.find(request.group_id)
        if group is not None:
            return Outcome(Pending.of(self._in_consumer_groups.sync(group, request, now)))
        return self._sync.sync(request)

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
        """Restart the session of a member; see `HeartbeatCommand.heartbeat`."""
        group = self._groups.consumers.find(request.group_id)
        if group is not None:
            return self._in_consumer_groups.heartbeat(group, request, now)
        return self._heartbeat.heartbeat(request, now)

    def prepare_leave(self, request: LeaveGroupRequest, version: int) -> Steps[PreparedLeave]:
        """Prepare a large request for `leave`, in steps; see `LeaveCommand.prepare`."""
        return self._leave.prepare(request, version)

    def leave(
        self, request: LeaveGroupRequest, version: int, now: Moment, prepared: PreparedLeave | None = None
    ) -> Outcome[LeaveGroupResponse]:
        """Remove members from their group; see `LeaveCommand.leave`."""
        group = self._groups.consumers.find(request.group_id)
        if group is not None:
            results, members = prepared or run_steps(self._leave.prepare(request, version))
            left, writes = self._in_consumer_groups.leave(group, members.values())
            for position, result in zip(members, left, strict=True):
                results[position] = result
            return Outcome(response_of(results, version), writes)
        return self._leave.leave(request, version, now, prepared)
