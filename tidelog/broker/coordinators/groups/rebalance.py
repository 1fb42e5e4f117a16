"""The rebalance: its start, the time for members to join, and its completion.

The first rebalance of a group waits `group.initial.rebalance.delay.ms` for more members. Whenever a member
has joined, it waits that long again, up to the rebalance timeout. Later rebalances complete when all members
have joined again. A dynamic member that has not joined by the rebalance timeout is removed.

Source: GroupMetadataManager of Apache Kafka; KIP-134 (initial delay), KIP-345 (static members).
"""

from __future__ import annotations

import logging

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.classic.states import CAN_START_REBALANCE, GroupState
from tidelog.broker.coordinators.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.groups.outcome import FollowUp, Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import group_metadata
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)


class Rebalance:
    """Changes the states of groups; shared by all commands."""

    def __init__(self, deadlines: Deadlines, config: GroupConfig) -> None:
        self._deadlines = deadlines
        self._config = config

    # Members

    def keep_alive(self, group: Group, member: Member, now: Moment, timeout_ms: int | None = None) -> None:
        """Restart the session of `member`."""
        self.set_session_deadline(
            group, member.member_id, now, member.session_timeout_ms if timeout_ms is None else timeout_ms
        )

    def set_session_deadline(self, group: Group, member_id: str, now: Moment, timeout_ms: int) -> None:
        """Set the deadline of a member or pending member, which the next request moves."""
        self._deadlines.set(_session(group, member_id), now.monotonic_ms + timeout_ms)

    def add_member(
        self, group: Group, member: Member, reply: Pending[JoinGroupResponse], reason: str, now: Moment
    ) -> Writes:
        """Add a member whose join waits for the other members."""
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.join_phase.on_member_added()
        group.add(member)
        group.parked_requests.park_join(member, reply)
        self.keep_alive(group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self.start_or_complete(group, reason, now)

    def evict(self, group: Group, member_id: str) -> None:
        """Remove a member or pending member. Its waiting requests get UNKNOWN_MEMBER_ID."""
        member = group.members.get(member_id)
        if member is not None:
            group.parked_requests.complete_join(
                member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            )
            group.parked_requests.complete_sync(
                member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            )
        group.remove(member_id)
        self._deadlines.cancel(_session(group, member_id))

    def on_join_abandoned(self, group: Group, reply: Pending[JoinGroupResponse], now: Moment) -> Writes:
        """Remove a new dynamic member whose client has disconnected before its first generation.

        No other client depends on it, and its metadata would stay in memory for minutes. In Kafka it stays
        until its session expires. Other members stay: their clients may reconnect.
        """
        member = group.parked_requests.member_of_join(reply)
        if member is None or not member.is_new or member.is_static:
            return NO_WRITES
        logger.info("Removing new member %s of group %s: disconnected", member.member_id, group.group_id)
        self.evict(group, member.member_id)
        return self.complete_if_all_joined(group, now)

    def cancel_session(self, group: Group, member_id: str) -> None:
        """Cancel the session deadline of `member_id`."""
        self._deadlines.cancel(_session(group, member_id))

    def cancel_deadlines(self, group: Group) -> None:
        """Cancel all deadlines of a group that is removed."""
        for member_id in (*group.members, *group.pending_members):
            self._deadlines.cancel(_session(group, member_id))
        self._deadlines.cancel(_join(group))
        self._deadlines.cancel(_sync(group))

    # The join phase

    def start_or_complete(self, group: Group, reason: str, now: Moment) -> Writes:
        """Start a rebalance if the state allows it; otherwise complete the current one if all have joined."""
        if group.state in CAN_START_REBALANCE:
            return self.start(group, reason, now)
        return self.complete_if_all_joined(group, now)

    def start(self, group: Group, reason: str, now: Moment) -> Writes:
        """Start the join phase: all members must join again, and waiting syncs get REBALANCE_IN_PROGRESS."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        self.cancel_syncs(group)
        group.join_phase.begin()
        is_initial = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, now)
        logger.info(
            "Preparing to rebalance group %s with old generation %s: %s",
            group.group_id,
            group.generation,
            reason,
        )
        if is_initial:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            extension_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            self._wait_for_joins(group, now, delay_ms, extension_ms)
            return NO_WRITES
        if group.all_members_joined:
            return self.complete(group, now)
        self._wait_for_joins(group, now, group.rebalance_timeout_ms(), None)
        return NO_WRITES

    def complete_if_all_joined(self, group: Group, now: Moment) -> Writes:
        """Complete the join phase if all members have joined; the initial one always lasts its full time."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.all_members_joined
        ):
            return self.complete(group, now)
        return NO_WRITES

    def on_join_deadline(self, group: Group, now: Moment) -> Writes:
        """Extend the initial delay if a member has joined, or complete the join phase."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return NO_WRITES
        delay_ms = group.join_phase.extend(self._config.group_initial_rebalance_delay_ms)
        if delay_ms is None:
            return self.complete(group, now)
        self._deadlines.set(_join(group), now.monotonic_ms + delay_ms)
        return NO_WRITES

    def complete(self, group: Group, now: Moment) -> Writes:
        """Complete the join phase: remove late members, start the next generation, complete all joins."""
        self._deadlines.cancel(_join(group))
        group.join_phase.end()
        late = [m.member_id for m in group.members.values() if m.awaiting_join is None and not m.is_static]
        for member_id in late:
            self.evict(group, member_id)
        if late:
            logger.info("Removed members of group %s that did not rejoin: %s", group.group_id, late)
        if group.members and not group.elect_joined_leader():
            logger.warning(
                "Group %s could not complete its rebalance: no member rejoined; waiting", group.group_id
            )
            self._wait_for_joins(group, now, group.rebalance_timeout_ms(), None)
            return NO_WRITES
        group.start_next_generation(now)
        if group.state is GroupState.EMPTY:
            logger.info("Group %s with generation %s is now empty", group.group_id, group.generation)
            return Writes((group_metadata(group, {}),), _log_failure(group))
        self._complete_joins(group, now)
        return NO_WRITES

    def _complete_joins(self, group: Group, now: Moment) -> None:
        """Respond to all members that have joined, and wait for their SyncGroup requests."""
        logger.info(
            "Stabilized group %s, generation %s, with %s members",
            group.group_id,
            group.generation,
            len(group.members),
        )
        for member in group.members.values():
            group.parked_requests.complete_join(member, group.generation_reply(member))
            self.keep_alive(group, member, now)
            member.on_rebalance_completed()
            group.sync_phase.expect(member.member_id)
        self._deadlines.set(_sync(group), now.monotonic_ms + group.rebalance_timeout_ms())

    def _wait_for_joins(self, group: Group, now: Moment, delay_ms: int, extension_ms: int | None) -> None:
        """Set the deadline of the join phase; `extension_ms` is the time by which it may be extended."""
        group.join_phase.wait(delay_ms, extension_ms)
        self._deadlines.set(_join(group), now.monotonic_ms + delay_ms)

    # The sync phase

    def on_member_synced(self, group: Group, member_id: str) -> None:
        """Note the sync of a member; cancel the sync deadline after the last one."""
        group.sync_phase.on_synced(member_id)
        if group.sync_phase.is_complete:
            self._deadlines.cancel(_sync(group))

    def cancel_syncs(self, group: Group) -> None:
        """Expect no more syncs: the generation ends before all members have sent theirs."""
        group.sync_phase.cancel()
        self._deadlines.cancel(_sync(group))

    def on_sync_deadline(self, group: Group, now: Moment) -> Writes:
        """Remove the members that have not sent SyncGroup, and rebalance."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return NO_WRITES
        late = group.sync_phase.late_members
        if not late:
            return NO_WRITES
        for member_id in late:
            self.evict(group, member_id)
        return self.start(group, f"members {late} did not send SyncGroup in time", now)

    def reset_assignments(self, group: Group, error: ErrorCode, now: Moment) -> None:
        """Clear all assignments; waiting syncs get `error`."""
        assert group.state is GroupState.COMPLETING_REBALANCE, group.state
        for member in group.members.values():
            group.assign(member, b"")
            if group.parked_requests.complete_sync(member, SyncGroupResponse(error_code=error)):
                self.keep_alive(group, member, now)

    # Sessions

    def on_session_expired(self, group: Group, member_id: str, now: Moment) -> Writes:
        """Remove a member whose session has expired, and rebalance."""
        if member_id in group.pending_members:
            self.evict(group, member_id)
            logger.info(
                "Removed pending member %s of group %s: it did not join in time", member_id, group.group_id
            )
            if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
                return self.complete(group, now)
            return NO_WRITES
        member = group.members.get(member_id)
        if member is None or member.is_excused_from_heartbeat:
            return NO_WRITES
        self.evict(group, member_id)
        reason = f"the session of {member_id} has expired"
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.start(group, reason, now)
        logger.info("Removed a member of group %s: %s", group.group_id, reason)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
            return self.complete(group, now)
        return NO_WRITES


def _session(group: Group, member_id: str) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id)


def _join(group: Group) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.JOIN, group.group_id)


def _sync(group: Group) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.SYNC, group.group_id)


def _log_failure(group: Group) -> FollowUp:
    """Return a follow-up that only logs that the record of an empty group cannot be written."""

    def follow_up(error: ErrorCode, now: Moment) -> Writes:
        # The previous generation stays in the log. Its members have left, so after a restart
        # their sessions would just expire.
        if error is not ErrorCode.NONE:
            logger.warning("Cannot write the empty generation of group %s: %s", group.group_id, error.name)
        return NO_WRITES

    return follow_up
