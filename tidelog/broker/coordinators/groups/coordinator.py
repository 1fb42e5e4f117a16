"""The group coordinator of one partition of `__consumer_offsets`.

How to use it: call a command, append its records to the log and `replay` each with its offset. Call `advance`
when they are committed, then `writes.follow_up`, and send the reply. If the append fails, replay nothing and
call `follow_up` with the error. No other command may run between a command and the replay of its records.
Call `tick` when `next_deadline_ms` has come.

Only `replay` changes the state that a restart must restore: committed offsets, and the groups with their
generation and assignments. Members that join or wait are only in memory, because they join again.

I/O: none. Errors: commands raise KafkaError if their docstring states it; otherwise the reply has the error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.administration import Administration
from tidelog.broker.coordinators.groups.classic.member_memory import MemberMemory
from tidelog.broker.coordinators.groups.classic.restore import restore
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupConfig, ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.coordinator import ConsumerCoordinator
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroupState
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.conversion import Conversion, ConversionSettings
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from tidelog.broker.coordinators.groups.membership import Membership
from tidelog.broker.coordinators.groups.offset_commands import OffsetCommands
from tidelog.broker.coordinators.groups.offset_expiration import OffsetExpiration
from tidelog.broker.coordinators.groups.offset_fetch import OffsetFetch
from tidelog.broker.coordinators.groups.offset_store import OffsetStore, OffsetTable
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.rebalance_counts import RebalanceCounts
from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.broker.coordinators.groups.records.coordinator_records import (
    CoordinatorRecord,
    GroupMetadataRecord,
)
from tidelog.broker.coordinators.groups.records.offset_records import CommittedOffsets, OffsetCommitRecord
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.groups.records.streams_group_records import StreamsGroupRecord
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.share.config import ShareGroupConfig, ShareGroupSettings
from tidelog.broker.coordinators.groups.share.coordinator import ShareGroupCoordinator
from tidelog.broker.coordinators.groups.share.group import ShareGroupState
from tidelog.broker.coordinators.groups.share.timers import ShareMemberTimers
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupConfig, StreamsGroupSettings
from tidelog.broker.coordinators.groups.streams.coordinator import StreamsGroupCoordinator
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.coordinators.groups.streams.timers import STREAMS_DEADLINES, StreamsTimers
from tidelog.broker.coordinators.groups.transactional_offsets import TransactionalOffsetCommit
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataValue
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import NO_PRODUCER_ID, Offset, ProducerId
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse

_CLASSIC_DEADLINES: Final = frozenset({DeadlineKind.SESSION, DeadlineKind.JOIN, DeadlineKind.SYNC})

DEADLINES_PER_TICK_MAX: Final = 1_000
"""Further expired deadlines are handled in the next tick, so that the event loop is not blocked."""


class NodeTotals(NamedTuple):
    """What all partitions of a node count together."""

    member_memory: MemberMemory
    rebalances: RebalanceCounts


class GroupCoordinator:
    """The groups and the offsets of one partition; its commands are in the parts with public names."""

    def __init__(
        self,
        config: GroupConfig,
        consumer_config: Callable[[], ConsumerGroupConfig],
        image: Callable[[], MetadataImage],
        new_suffix: Callable[[], str],
        share_config: Callable[[], ShareGroupConfig],
        streams_config: Callable[[], StreamsGroupConfig],
        totals: NodeTotals | None = None,
    ) -> None:
        """`new_suffix` makes member ids unique. All partitions of a node share `totals`."""
        self._config = config
        self._is_loading = True
        self._loaded_records: dict[str, GroupMetadataValue] = {}
        """The last record of each classic group in the log; only while it is loaded."""
        self._deadlines = Deadlines()
        self._rebalance = Rebalance(self._deadlines, config)
        self.member_memory, self.rebalances = totals or NodeTotals(
            MemberMemory(config.group_max_member_bytes), RebalanceCounts()
        )
        self._groups = GroupRegistry(self._rebalance, self.member_memory)
        self._offsets = OffsetStore()
        settings, topics, timers = (
            ConsumerGroupSettings(consumer_config, image),
            Topics(image),
            MemberTimers(self._deadlines),
        )
        conversion = Conversion(
            self._groups, self._rebalance, ConversionSettings(config, settings), topics, timers
        )
        self.consumers = ConsumerCoordinator(self._groups, conversion, settings, topics, timers, new_suffix)
        self.shares = ShareGroupCoordinator(
            self._groups,
            ShareGroupSettings(share_config, image),
            topics,
            ShareMemberTimers(self._deadlines),
        )
        self.streams = StreamsGroupCoordinator(
            self._groups,
            StreamsGroupSettings(streams_config, image),
            topics,
            StreamsTimers(self._deadlines),
        )
        self.membership = Membership(
            self._groups, self._rebalance, config, new_suffix, self.consumers.classic_members
        )
        self.offsets = OffsetCommands(self._groups, self._offsets, self._rebalance, config)
        self.transactional_offsets = TransactionalOffsetCommit(self._groups, config)
        self.offset_fetch = OffsetFetch(self._groups, self._offsets)
        self.expiration = OffsetExpiration(self._groups, self._offsets, config)
        self.administration = Administration(self._groups, self._offsets)

    # Replay

    def replay(
        self, record: CoordinatorRecord, record_offset: Offset, producer_id: ProducerId = NO_PRODUCER_ID
    ) -> None:
        """Apply one record of the log."""
        if isinstance(record, OffsetCommitRecord):
            if record.value is not None and record.key.group_id not in self._groups:
                self._groups.create(record.key.group_id, None)
            self._offsets.replay(record, record_offset, producer_id)
        elif isinstance(record, GroupMetadataRecord):
            self._replay_group(record)
        else:
            self._replay_typed(record)
            if not self._is_loading:
                self.rebalances.add(record)

    def load_offsets(self, commits: CommittedOffsets, first_offset: Offset) -> None:
        """Apply consecutive records of the log that commit offsets, from `first_offset` on, while loading."""
        assert self._is_loading
        group_id, topic, offsets, _ = commits
        if group_id not in self._groups:
            self._groups.create(group_id, None)
        self._offsets.load(group_id, topic, offsets, first_offset)

    def _replay_typed(self, record: ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord) -> None:
        """Apply the record of a group whose partitions the coordinator assigns."""
        if isinstance(record, ConsumerGroupRecord):
            self.consumers.replay(record)
        elif isinstance(record, ShareGroupRecord):
            self.shares.replay(record)
        else:
            self.streams.replay(record)

    def _replay_group(self, record: GroupMetadataRecord) -> None:
        """Apply the record of a classic group."""
        group_id = record.key.group
        group = self._groups.get(group_id)
        if record.value is None:
            self._loaded_records.pop(group_id, None)
            if group is not None:
                self._groups.remove(group)
        elif self._is_loading:
            self._loaded_records[group_id] = record.value
            if group is None:
                self._groups.create(group_id, None)
        elif group is None:
            # A consumer group has been converted; other records repeat what their command has changed.
            restore(self._groups.create(group_id, None), record.value)

    def replay_transaction_end(self, producer_id: ProducerId, is_commit: bool, record_offset: Offset) -> None:
        """Apply the end marker of a transaction."""
        self._offsets.end_transaction(producer_id, is_commit, record_offset)

    def advance(self, high_watermark: Offset) -> None:
        """Note that the records below `high_watermark` are committed."""
        self._offsets.advance(high_watermark)

    def finish_loading(self, now: Moment) -> list[Writes]:
        """Restore the groups from the replayed records; the sessions of their members start now."""
        writes = []
        self._is_loading = False
        for group_id in self._offsets.latest.group_ids():
            if group_id not in self._groups:
                self._groups.create(group_id, None)
        self.consumers.finish_loading(now)
        self.shares.finish_loading(now)
        self.streams.finish_loading(now)
        for group in self._groups:
            record = self._loaded_records.pop(group.group_id, None)
            # A group without a record has only offsets: it belongs to a simple consumer.
            if record is not None:
                restore(group, record)
            for member in group.members.values():
                self._rebalance.keep_alive(group, member, now)
            if len(group.members) > self._config.group_max_size:
                reason = f"{len(group.members)} members, group.max.size is {self._config.group_max_size}"
                writes.append(self._rebalance.start(group, reason, now))
        return [write for write in writes if write is not NO_WRITES]

    # Deadlines

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next call of `tick`; None if no deadline is set."""
        return self._deadlines.next_deadline_ms()

    def tick(self, now: Moment) -> Iterator[Writes]:
        """Handle the deadlines that have expired, at most `DEADLINES_PER_TICK_MAX` in one call.

        The caller must write each part before it requests the next one, which depends on it.
        """
        for _ in range(DEADLINES_PER_TICK_MAX):
            key = self._deadlines.pop_expired(now.monotonic_ms)
            if key is None:
                break
            writes = self._on_deadline(key, now)
            if writes is not NO_WRITES:
                yield writes

    def _on_deadline(self, key: DeadlineKey, now: Moment) -> Writes:
        if key.kind is DeadlineKind.SHARE_SESSION:
            return self.shares.on_deadline(key)
        if key.kind in STREAMS_DEADLINES:
            return self.streams.on_deadline(key, now)
        if key.kind not in _CLASSIC_DEADLINES:
            return self.consumers.on_deadline(key)
        group = self._groups.get(key.group_id)
        assert group is not None, f"the group of this deadline has been removed: {key}"
        if key.kind is DeadlineKind.SESSION:
            return self._rebalance.on_session_expired(group, key.member_id, now)
        if key.kind is DeadlineKind.JOIN:
            return self._rebalance.on_join_deadline(group, now)
        return self._rebalance.on_sync_deadline(group, now)

    # Resignation

    def resign(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR, because another node leads, and drop the state."""
        self._deadlines.clear()
        for group in self._groups:
            for member in group.members.values():
                group.parked_requests.complete_join(
                    member,
                    JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.NOT_COORDINATOR),
                )
                group.parked_requests.complete_sync(
                    member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
                )
            group.transition(GroupState.DEAD, None)
        self._groups.clear()

    @property
    def committed_offsets(self) -> OffsetTable:
        """All committed offsets. The caller must not change them."""
        return self._offsets.committed

    def group_counts(self) -> Counter[GroupState]:
        """Return the number of classic groups in each state, for metrics."""
        return Counter(group.state for group in self._groups)

    def consumer_group_counts(self) -> Counter[ConsumerGroupState]:
        """Return the number of consumer groups in each state, for metrics."""
        return Counter(group.state for group in self._groups.consumers)

    def share_group_counts(self) -> Counter[ShareGroupState]:
        """Return the number of share groups in each state, for metrics."""
        return Counter(group.state for group in self._groups.shares)

    def streams_group_counts(self) -> Counter[StreamsGroupState]:
        """Return the number of streams groups in each state, for metrics."""
        return Counter(group.state for group in self._groups.streams)
