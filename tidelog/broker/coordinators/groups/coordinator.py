"""The group coordinator of one partition of `__consumer_offsets`: all of its commands in one place.

How it is used: call a command, append the records it gives to the log, `replay` each of them
with the offset it got, and `advance` when they are committed; then tell `writes.follow_up` and
send the reply. If the append fails, replay nothing and tell `settled` the error. Nothing may
come between a command and the replay of its records. Call `tick` when `next_deadline_ms` has come.

Only `replay` changes what a restart must know: committed offsets and which groups exist with
what generation and assignment. Members that join or wait live in memory, as they join again.

I/O: none. Errors: commands raise KafkaError where their docstring says so, else they reply.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID

from tidelog.broker.coordinators.groups.administration import Administration
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.groups.heartbeat import HeartbeatCommand
from tidelog.broker.coordinators.groups.join import JoinCommand
from tidelog.broker.coordinators.groups.leave import LeaveCommand
from tidelog.broker.coordinators.groups.member_memory import MemberMemory
from tidelog.broker.coordinators.groups.offset_commands import OffsetCommands
from tidelog.broker.coordinators.groups.offset_expiry import OffsetExpiry
from tidelog.broker.coordinators.groups.offset_fetch import OffsetFetch
from tidelog.broker.coordinators.groups.offset_store import OffsetStore
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.pending import Pending
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records import CoordinatorRecord, GroupMetadataRecord
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.restore import restore
from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.broker.coordinators.groups.sync import SyncCommand
from tidelog.broker.coordinators.groups.transactional_offsets import TransactionalOffsetCommit
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NOTHING
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import NO_PRODUCER_ID, Offset, ProducerId
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

DEADLINES_PER_TICK_MAX = 1_000


class GroupCoordinator:
    """Groups and offsets of one partition."""

    def __init__(
        self, config: GroupConfig, new_suffix: Callable[[], str], memory: MemberMemory | None = None
    ) -> None:
        """`memory` is shared by all partitions of a node."""
        self._config = config
        self.member_memory = MemberMemory(config.group_max_member_bytes) if memory is None else memory
        self._deadlines = Deadlines()
        self._rebalance = Rebalance(self._deadlines, config)
        self._groups = GroupRegistry(self._rebalance, self.member_memory)
        self._offsets = OffsetStore()
        self._offset_commands = OffsetCommands(self._groups, self._offsets, self._rebalance, config)
        self._expiry = OffsetExpiry(self._groups, self._offsets, config)
        self._fetch = OffsetFetch(self._offsets)
        self._administration = Administration(self._groups, self._offsets)
        self.join = JoinCommand(self._groups, self._rebalance, config, new_suffix).join
        self.sync = SyncCommand(self._groups, self._rebalance).sync
        self.heartbeat = HeartbeatCommand(self._groups, self._rebalance).heartbeat
        self.leave = LeaveCommand(self._groups, self._rebalance).leave
        self.prepare_offsets = self._offset_commands.prepare
        self.commit_offsets = self._offset_commands.commit
        self.commit_transactional_offsets = TransactionalOffsetCommit(self._groups, config).commit
        self.delete_offsets = self._offset_commands.delete
        self.fetch_offsets = self._fetch.fetch
        self.fetch_all_offsets = self._fetch.fetch_all
        self.list_groups = self._administration.list_groups
        self.describe_group = self._administration.describe_group
        self.delete_groups = self._administration.delete_groups

    def abandon_join(self, group_id: str, reply: Pending[JoinGroupResponse], now: Moment) -> Writes:
        """The client that waits for this reply to its JoinGroup has gone."""
        group = self._groups.get(group_id)
        return NOTHING if group is None else self._rebalance.join_abandoned(group, reply, now)

    def expire_offsets(self, now: Moment) -> Writes:
        """Forget offsets and groups that nobody needs any more."""
        return self._expiry.expire(now)

    def forget_topics(self, topics: Mapping[str, UUID]) -> Writes:
        """Forget the offsets in deleted topics, given by name with their ids."""
        return self._offset_commands.forget_topics(topics)

    # Replay

    def replay(
        self, record: CoordinatorRecord, record_offset: Offset, producer_id: ProducerId = NO_PRODUCER_ID
    ) -> None:
        """Apply one record of the log."""
        group_id = record.key.group
        group = self._groups.get(group_id)
        if not isinstance(record, GroupMetadataRecord):
            if group is None and record.value is not None:
                self._groups.create(group_id, None)
            self._offsets.replay(record, record_offset, producer_id)
        elif record.value is None:
            if group is not None:
                self._groups.remove(group)
        else:
            if group is None:
                group = self._groups.create(group_id, None)
            group.persisted = record.value

    def replay_transaction_end(self, producer_id: ProducerId, is_commit: bool, record_offset: Offset) -> None:
        """Apply the end marker of a transaction."""
        self._offsets.end_transaction(producer_id, is_commit, record_offset)

    def advance(self, high_watermark: Offset) -> None:
        """Records below `high_watermark` are committed."""
        self._offsets.advance(high_watermark)

    def finish_loading(self, now: Moment) -> list[Writes]:
        """All records are replayed: bring the groups to life, their members' sessions start now."""
        writes = []
        for group_id in self._offsets.latest.group_ids():
            if self._groups.get(group_id) is None:
                self._groups.create(group_id, None)
        for group in self._groups:
            restore(group)
            for member in group.members.values():
                self._rebalance.keep_alive(group, member, now)
            if len(group.members) > self._config.group_max_size:
                reason = f"{len(group.members)} members, group.max.size is {self._config.group_max_size}"
                writes.append(self._rebalance.start(group, reason, now))
        return [write for write in writes if write is not NOTHING]

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called next, on the monotonic clock; None when nothing is pending."""
        return self._deadlines.next_deadline_ms()

    def tick(self, now: Moment) -> list[Writes]:
        """Do what is due, at most `DEADLINES_PER_TICK_MAX` things at once."""
        writes = []
        for _ in range(DEADLINES_PER_TICK_MAX):
            key = self._deadlines.pop_expired(now.monotonic_ms)
            if key is None:
                break
            writes.append(self._act(key, now))
        return [write for write in writes if write is not NOTHING]

    def _act(self, key: DeadlineKey, now: Moment) -> Writes:
        group = self._groups.get(key.group_id)
        assert group is not None, f"a deadline outlived its group: {key}"
        if key.kind is DeadlineKind.SESSION:
            return self._rebalance.session_is_over(group, key.member_id, now)
        if key.kind is DeadlineKind.JOIN:
            return self._rebalance.join_time_is_over(group, now)
        return self._rebalance.sync_time_is_over(group, now)

    # The end

    def resign(self) -> None:
        """Another node leads the partition: whoever waits is sent there, and all is forgotten."""
        self._deadlines.clear()
        for group in self._groups:
            for member in group.members.values():
                group.answer_join(
                    member,
                    JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.NOT_COORDINATOR),
                )
                group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
            group.transition(GroupState.DEAD, None)
        self._groups.clear()

    def group_counts(self) -> Counter[GroupState]:
        """How many groups are in each state, for metrics."""
        return Counter(group.state for group in self._groups)
