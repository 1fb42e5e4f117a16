"""The rebalance itself: when it starts, how long members may take to join, what ends it.

A group's first rebalance waits `group.initial.rebalance.delay.ms` for more members, and again
that long whenever one has come meanwhile, up to the rebalance time-out. Later ones are over as
soon as all members have joined again; who has not by the rebalance time-out is dropped, unless
it is a static member.

Source: GroupMetadataManager of Apache Kafka; KIP-134 (initial delay), KIP-345 (static members).
"""

from __future__ import annotations

import logging

from tidelog.broker.coordinators.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.groups.group import Group
from tidelog.broker.coordinators.groups.member import Member
from tidelog.broker.coordinators.groups.outcome import FollowUp, Writes
from tidelog.broker.coordinators.groups.pending import Pending
from tidelog.broker.coordinators.groups.records import group_metadata
from tidelog.broker.coordinators.groups.states import CAN_START_REBALANCE, GroupState
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NOTHING
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)


class Rebalance:
    """Moves groups through their states; shared by all commands."""

    def __init__(self, deadlines: Deadlines, config: GroupConfig) -> None:
        self._deadlines = deadlines
        self._config = config

    # Members

    def keep_alive(self, group: Group, member: Member, now: Moment, timeout_ms: int | None = None) -> None:
        """Start the session of `member` anew."""
        self.expect(
            group, member.member_id, now, member.session_timeout_ms if timeout_ms is None else timeout_ms
        )

    def expect(self, group: Group, member_id: str, now: Moment, timeout_ms: int) -> None:
        """Act when nothing is heard of `member_id` for `timeout_ms`."""
        self._deadlines.set(_session(group, member_id), now.monotonic_ms + timeout_ms)

    def add_member(
        self, group: Group, member: Member, reply: Pending[JoinGroupResponse], reason: str, now: Moment
    ) -> Writes:
        """Take in a member and have it wait for the others."""
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member)
        group.park_join(member, reply)
        self.keep_alive(group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self.start_or_complete(group, reason, now)

    def evict(self, group: Group, member_id: str) -> None:
        """Drop a member or pending member; its waiting requests learn that it is unknown now."""
        member = group.members.get(member_id)
        if member is not None:
            group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        self._deadlines.cancel(_session(group, member_id))

    def join_abandoned(self, group: Group, reply: Pending[JoinGroupResponse], now: Moment) -> Writes:
        """Drop a dynamic member that has not taken part in a generation and whose client has gone.

        Nobody else would miss it, and what it says about itself would stay in memory for minutes. In Kafka it
        stays until its session ends. Other members keep their places: their clients may come back.
        """
        member = group.member_of_join(reply)
        if member is None or not member.is_new or member.is_static:
            return NOTHING
        logger.info("group %s: the client of %s has gone before it joined", group.group_id, member.member_id)
        self.evict(group, member.member_id)
        return self.complete_if_all_joined(group, now)

    def forget_session(self, group: Group, member_id: str) -> None:
        """Expect nothing more of `member_id`."""
        self._deadlines.cancel(_session(group, member_id))

    def forget_group(self, group: Group) -> None:
        """Expect nothing more of a group that is gone."""
        for member_id in (*group.members, *group.pending_members):
            self._deadlines.cancel(_session(group, member_id))
        self._deadlines.cancel(_join(group))
        self._deadlines.cancel(_sync(group))

    # The joining phase

    def start_or_complete(self, group: Group, reason: str, now: Moment) -> Writes:
        """Start a rebalance where one can start, else see whether the current one is complete."""
        if group.state in CAN_START_REBALANCE:
            return self.start(group, reason, now)
        return self.complete_if_all_joined(group, now)

    def start(self, group: Group, reason: str, now: Moment) -> Writes:
        """Have all members join again; requests that wait for an assignment are sent back."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        self.stop_expecting_syncs(group)
        group.new_member_added = False
        is_initial = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, now)
        logger.info("group %s rebalances after generation %s: %s", group.group_id, group.generation, reason)
        if is_initial:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            self._wait_for_joins(group, now, delay_ms, remaining_ms)
            return NOTHING
        if group.all_members_joined:
            return self.complete(group, now)
        self._wait_for_joins(group, now, group.rebalance_timeout_ms(), None)
        return NOTHING

    def complete_if_all_joined(self, group: Group, now: Moment) -> Writes:
        """End the joining phase if nobody is missing; the initial one always lasts its time."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.all_members_joined
        ):
            return self.complete(group, now)
        return NOTHING

    def join_time_is_over(self, group: Group, now: Moment) -> Writes:
        """The JOIN deadline has come."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return NOTHING
        remaining_ms = group.initial_remaining_ms
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_joins(group, now, delay_ms, max(remaining_ms - group.initial_delay_ms, 0))
            return NOTHING
        return self.complete(group, now)

    def complete(self, group: Group, now: Moment) -> Writes:
        """End the joining phase: drop who did not join, count the generation, answer all joins."""
        self._deadlines.cancel(_join(group))
        group.initial_remaining_ms = None
        late = [m.member_id for m in group.members.values() if m.awaiting_join is None and not m.is_static]
        for member_id in late:
            self.evict(group, member_id)
        if late:
            logger.info("group %s drops members that did not join again: %s", group.group_id, late)
        if group.members and not group.elect_joined_leader():
            logger.warning("group %s waits on: none of its static members joined again", group.group_id)
            self._wait_for_joins(group, now, group.rebalance_timeout_ms(), None)
            return NOTHING
        group.start_next_generation(now)
        if group.state is GroupState.EMPTY:
            logger.info("group %s is empty in generation %s", group.group_id, group.generation)
            return Writes((group_metadata(group, {}),), _log_failure(group))
        self._answer_joins(group, now)
        return NOTHING

    def _answer_joins(self, group: Group, now: Moment) -> None:
        logger.info(
            "group %s has generation %s with %s members", group.group_id, group.generation, len(group.members)
        )
        for member in group.members.values():
            group.answer_join(member, group.generation_reply(member))
            self.keep_alive(group, member, now)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        self._deadlines.set(_sync(group), now.monotonic_ms + group.rebalance_timeout_ms())

    def _wait_for_joins(self, group: Group, now: Moment, delay_ms: int, remaining_ms: int | None) -> None:
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = remaining_ms
        self._deadlines.set(_join(group), now.monotonic_ms + delay_ms)

    # The syncing phase

    def member_synced(self, group: Group, member_id: str) -> None:
        """A member has asked for its assignment; expect nothing more when it was the last."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self._deadlines.cancel(_sync(group))

    def stop_expecting_syncs(self, group: Group) -> None:
        """The generation is over before everybody asked for its assignment."""
        group.pending_sync.clear()
        self._deadlines.cancel(_sync(group))

    def sync_time_is_over(self, group: Group, now: Moment) -> Writes:
        """The SYNC deadline has come: members that did not ask for their assignment are dropped."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return NOTHING
        silent = list(group.pending_sync)
        for member_id in silent:
            self.evict(group, member_id)
        return self.start(group, f"members {silent} did not ask for their assignment", now)

    def reset_assignments(self, group: Group, error: ErrorCode, now: Moment) -> None:
        """Nobody has an assignment any more; waiting syncs get `error`."""
        assert group.state is GroupState.COMPLETING_REBALANCE, group.state
        for member in group.members.values():
            group.assign(member, b"")
            if group.answer_sync(member, SyncGroupResponse(error_code=error)):
                self.keep_alive(group, member, now)

    # Sessions

    def session_is_over(self, group: Group, member_id: str, now: Moment) -> Writes:
        """The SESSION deadline has come: a silent member is dropped."""
        if member_id in group.pending_members:
            self.evict(group, member_id)
            logger.info("group %s: %s never came back with its id", group.group_id, member_id)
            if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
                return self.complete(group, now)
            return NOTHING
        member = group.members.get(member_id)
        if member is None or member.is_excused_from_heartbeat:
            return NOTHING
        self.evict(group, member_id)
        reason = f"{member_id} was silent for its session time-out"
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.start(group, reason, now)
        logger.info("group %s: %s", group.group_id, reason)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
            return self.complete(group, now)
        return NOTHING


def _session(group: Group, member_id: str) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id)


def _join(group: Group) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.JOIN, group.group_id)


def _sync(group: Group) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.SYNC, group.group_id)


def _log_failure(group: Group) -> FollowUp:
    def follow_up(error: ErrorCode, now: Moment) -> Writes:
        # The generation before this one stays in the log. Its members are gone, so after a
        # reload they would just run out of their sessions.
        if error is not ErrorCode.NONE:
            logger.warning("group %s: the empty generation is not written: %s", group.group_id, error.name)
        return NOTHING

    return follow_up
