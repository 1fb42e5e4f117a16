"""A share partition compared with a dictionary from offset to state.

Members fetch, acknowledge, leave or stay silent, writes of states succeed late or fail, the log start moves,
the leader restarts. Every record is acknowledged or delivered again, never more often than the limit allows,
and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.share_groups.locks import ManualLockTimers
from tests.support.share_groups.memory_persister import StateOfOffsets
from tidelog.broker.coordinators.share.persister import (
    SharePartitionKey,
    StateWrite,
)
from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch
from tidelog.broker.share_partitions.acquisition import (
    AcquiredRecords,
    AcquireMode,
    AcquireRequest,
    DeliveryLimits,
    FetchedBatch,
)
from tidelog.broker.share_partitions.acquisition_lock import AcquisitionLock
from tidelog.broker.share_partitions.record_states import RecordState
from tidelog.broker.share_partitions.share_partition import SharePartition
from tidelog.broker.share_partitions.state_change import StateChange
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType
from tidelog.protocol.steps import run_steps

KEY = SharePartitionKey("workers", UUID(int=1), 0)
LIMITS = DeliveryLimits(delivery_count_max=4, records_in_flight_max=40, lock_duration_ms=100)
MEMBERS = ("a", "b", "c")
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
RESULTS = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


@dataclass
class Expected:
    """The expected state of one record."""

    state: RecordState = AVAILABLE
    delivery_count: int = 0
    member: str = ""
    deadline_ms: int = 0
    pending: tuple[RecordState, int] | None = None
    """The state and count that a write is about to store; the record still has `state`."""


class SharePartitionMachine(RuleBasedStateMachine):
    """Performs the same operations on the share partition and the dictionary."""

    @initialize()
    def start(self) -> None:
        self.timers = ManualLockTimers()
        self.store = StateOfOffsets()
        self.log: list[FetchedBatch] = []
        self.log_start = 0
        self.log_end = 0
        self.expected: dict[int, Expected] = {}
        self.done: set[int] = set()
        self.writes: list[tuple[StateChange, StateWrite]] = []
        self.load()
        for count in (1, 9, 4, 20):
            self.append(count, gap=0, is_aborted=False)

    def load(self) -> None:
        self.partition = SharePartition(KEY, 3, LIMITS, self.timers)
        stored = self.store.read()
        self.partition.load(stored, stored.start_offset)

    # ---- the log

    @rule(
        count=st.integers(1, 12),
        gap=st.sampled_from([0, 0, 0, 3]),
        is_aborted=st.sampled_from([False] * 5 + [True]),
    )
    def append(self, count: int, gap: int, is_aborted: bool) -> None:
        first = self.log_end + gap
        self.log.append(FetchedBatch(first, first + count, is_aborted))
        if not is_aborted:
            for offset in range(first, first + count):
                self.expected[offset] = Expected()
        self.log_end = first + count

    @precondition(lambda self: self.log_end > self.log_start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, min(self.log_start + 4, self.log_end)))
        self.partition.move_start(self.log_start)
        self.expected = {key: value for key, value in self.expected.items() if key >= self.log_start}

    # ---- members

    @rule(
        member=st.sampled_from(MEMBERS),
        max_records=st.integers(1, 25),
        batch_size=st.integers(1, 20),
        mode=st.sampled_from(AcquireMode),
        batch_limit=st.integers(1, 6),
    )
    def fetch(
        self, member: str, max_records: int, batch_size: int, mode: AcquireMode, batch_limit: int
    ) -> None:
        request = AcquireRequest(member_id=member, max_records=max_records, batch_size=batch_size, mode=mode)
        could_acquire = self.partition.can_acquire
        offset = self.partition.next_fetch_offset()
        batches = [batch for batch in self.log if batch.end_offset > max(offset, self.log_start)][
            :batch_limit
        ]
        acquired = (
            self.partition.acquire(request, max(offset, self.log_start), batches) if could_acquire else []
        )
        self.check_acquired(acquired, request, batches)
        if could_acquire and any(not batch.is_aborted for batch in batches):
            has_candidates = any(
                self.expected[one].state is AVAILABLE and self.expected[one].pending is None
                for batch in batches
                for one in range(max(batch.first_offset, offset), batch.end_offset)
                if one in self.expected
            )
            assert acquired or not has_candidates or self.partition.in_flight_count >= 40
        for first, last, _ in acquired:
            for one in range(first, last + 1):
                record = self.expected[one]
                record.state, record.member = ACQUIRED, member
                record.delivery_count += 1
                record.deadline_ms = self.timers.now_ms + LIMITS.lock_duration_ms

    def check_acquired(
        self, acquired: list[AcquiredRecords], request: AcquireRequest, batches: Iterable[FetchedBatch]
    ) -> None:
        offsets = [one for first, last, _ in acquired for one in range(first, last + 1)]
        assert offsets == sorted(set(offsets)), "a record is acquired once"
        if request.mode is AcquireMode.RECORD_LIMIT:
            assert len(offsets) <= request.max_records
        fetched = {one for batch in batches for one in range(batch.first_offset, batch.end_offset)}
        assert fetched.issuperset(offsets)
        for first, last, delivery_count in acquired:
            for one in range(first, last + 1):
                record = self.expected[one]
                assert record.state is AVAILABLE and record.pending is None
                assert delivery_count == record.delivery_count + 1 <= LIMITS.delivery_count_max

    def owned_by(self, member: str) -> list[int]:
        return [
            offset
            for offset, record in sorted(self.expected.items())
            if record.state is ACQUIRED and record.member == member and record.pending is None
        ]

    @precondition(lambda self: any(map(self.owned_by, MEMBERS)))
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from([one for one in MEMBERS if self.owned_by(one)]))
        owned = self.owned_by(member)
        chosen = sorted(data.draw(st.sets(st.sampled_from(owned), min_size=1, max_size=10)))
        if data.draw(st.booleans()):
            chosen = [one for one in owned if chosen[0] <= one <= chosen[-1]]
        types = {one: data.draw(st.integers(0, 4)) for one in chosen}
        change = run_steps(self.partition.acknowledge(member, batches_of(types)))
        for one, kind in types.items():
            record = self.expected[one]
            if kind == AcknowledgeType.RENEW:
                record.deadline_ms = self.timers.now_ms + LIMITS.lock_duration_ms
                continue
            state = RESULTS[kind]
            if state is AVAILABLE and record.delivery_count >= LIMITS.delivery_count_max:
                state = ARCHIVED
            record.pending = (state, record.delivery_count)
        self.begin_write(change)

    @rule(member=st.sampled_from(MEMBERS), data=st.data())
    def acknowledge_records_of_others(self, member: str, data: st.DataObject) -> None:
        foreign = [
            offset
            for offset, record in sorted(self.expected.items())
            if offset >= self.partition.start_offset
            and offset < self.partition.end_offset
            and (record.member != member or record.pending is not None)
        ]
        owned = self.owned_by(member)
        if not foreign:
            return
        types = dict.fromkeys(sorted({*owned, data.draw(st.sampled_from(foreign))}), 1)
        try:
            run_steps(self.partition.acknowledge(member, batches_of(types)))
        except KafkaError:
            return
        raise AssertionError(f"{member} acknowledged {foreign} of others")

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        for one in self.owned_by(member):
            record = self.expected[one]
            record.pending = (AVAILABLE, record.delivery_count - 1)
        self.begin_write(self.partition.release(member))

    @rule(by_ms=st.sampled_from([10, 50, 100]))
    def advance_time(self, by_ms: int) -> None:
        self.timers.advance(by_ms, self.on_expired)

    def on_expired(self, lock: AcquisitionLock) -> None:
        change = self.partition.expire(lock)
        for record in self.expected.values():
            if (
                record.state is ACQUIRED
                and record.pending is None
                and record.deadline_ms <= self.timers.now_ms
            ):
                release(record)
        self.store.write(self.partition.write_of(change))
        self.partition.commit(change)

    # ---- storing

    def begin_write(self, change: StateChange) -> None:
        if change:
            self.writes.append((change, self.partition.write_of(change)))

    @precondition(lambda self: self.writes)
    @rule(succeeds=st.booleans())
    def end_write(self, succeeds: bool) -> None:
        change, write = self.writes.pop(0)
        offsets = [one for batch in write.batches for one in range(batch.first_offset, batch.last_offset + 1)]
        records = [self.expected[one] for one in offsets if one in self.expected]
        if succeeds:
            self.store.write(write)
            self.partition.commit(change)
        else:
            self.partition.roll_back(change)
        for record in records:
            assert record.pending is not None
            if succeeds:
                record.state, record.delivery_count = record.pending
                record.member = ""
            elif record.deadline_ms <= self.timers.now_ms:
                release(record)
            record.pending = None

    @rule()
    def restart(self) -> None:
        self.partition.fence()
        assert self.timers.pending_count == 0
        self.writes.clear()
        self.load()
        self.partition.move_start(self.log_start)
        for offset, record in self.expected.items():
            if offset < self.store.start_offset:
                assert record.state.is_final, f"record {offset} is lost"
                continue
            state, count = self.store.states.get(offset, (AVAILABLE, 0))
            self.expected[offset] = Expected(RecordState(state), count)

    # ---- what holds at all times

    @invariant()
    def states_agree(self) -> None:
        if not hasattr(self, "partition"):
            return
        partition = self.partition
        for offset, record in self.expected.items():
            if offset < partition.start_offset:
                assert record.state.is_final and record.pending is None, f"record {offset} is lost"
            elif offset >= partition.end_offset:
                assert record.state is AVAILABLE and not record.delivery_count
        assert partition.range_count <= partition.in_flight_count
        available = [
            offset
            for offset, record in sorted(self.expected.items())
            if record.state is AVAILABLE and record.pending is None and offset >= self.log_start
        ]
        if available:
            assert partition.next_fetch_offset() <= available[0]

    def teardown(self) -> None:
        """Accept everything that is left: no record is missing at the end."""
        if not hasattr(self, "partition"):
            return
        while self.writes:
            self.end_write(succeeds=True)
        self.advance_time(LIMITS.lock_duration_ms)
        for _ in range(10 * len(self.log) + 200):
            self.fetch("a", 100, 100, AcquireMode.BATCH_OPTIMIZED, 100)
            owned = self.owned_by("a")
            if not owned and self.partition.end_offset >= self.log_end:
                break
            types = dict.fromkeys(owned, 1)
            if types:
                self.begin_write(run_steps(self.partition.acknowledge("a", batches_of(types))))
                for one in owned:
                    record = self.expected[one]
                    record.pending = (ACKNOWLEDGED, record.delivery_count)
                self.end_write(succeeds=True)
        missing = {offset for offset, record in self.expected.items() if not record.state.is_final}
        assert not missing, f"records {missing} were not delivered"
        assert self.partition.in_flight_count == 0 or self.partition.start_offset == self.log_start
        assert self.timers.pending_count == 0


def release(record: Expected) -> None:
    """Give a record back after its lock has expired."""
    is_last = record.delivery_count >= LIMITS.delivery_count_max
    record.state, record.member = ARCHIVED if is_last else AVAILABLE, ""


def batches_of(types: dict[int, int]) -> list[AcknowledgedBatch]:
    """Return the acknowledgements of consecutive offsets as batches."""
    batches = []
    for _, group in groupby(enumerate(sorted(types)), lambda pair: pair[1] - pair[0]):
        offsets = [offset for _, offset in group]
        kinds = [types[offset] for offset in offsets]
        batches.append(
            AcknowledgedBatch(offsets[0], offsets[-1], kinds[:1] if len(set(kinds)) == 1 else kinds)
        )
    return batches


TestSharePartitionModel = SharePartitionMachine.TestCase
TestSharePartitionModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
