"""A partition as one share group reads it: which records are in flight, and which member has them.

    start_offset <= records in flight < end_offset <= records that were not delivered yet

The start offset is Kafka's SPSO: the delivery of all records below it is complete. A record is delivered
until a member accepts or rejects it, or until it was delivered `delivery_count_max` times.

Every change that a restart must know is a `StateChange`. The caller stores it, and then calls `commit` or
`roll_back`. Acquisitions are not stored: after a restart the records are delivered again. The expiration of a
lock is valid at once; if it cannot be stored, an earlier state is read after a restart.

Differences from SharePartition of Apache Kafka: states belong to ranges of offsets, not to batches or single
offsets, and the offsets that are missing in the stored state are available records.
I/O: none; `timers` calls `on_lock_expired` when a lock expires.
Source: KIP-932; SharePartition of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from tidelog.broker.coordinators.share.persister import (
    SharePartitionKey,
    ShareStateBatch,
    StateWrite,
    StoredState,
)
from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch, AcknowledgedRun, runs_of
from tidelog.broker.share_partitions.acquisition import (
    AcquiredRecords,
    AcquireRequest,
    Acquisition,
    DeliveryLimits,
    FetchedBatch,
)
from tidelog.broker.share_partitions.acquisition_lock import AcquisitionLock, LockTimers
from tidelog.broker.share_partitions.in_flight import InFlightRange, InFlightRanges
from tidelog.broker.share_partitions.record_states import STATE_OF, RecordState
from tidelog.broker.share_partitions.state_change import StateChange
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType
from tidelog.protocol.steps import Steps

BATCHES_PER_ACQUISITION: Final = 2_000
"""One acquisition reads at most this many batches, which takes about 5 ms; the next one continues."""
_RUNS_PER_STEP: Final = 100


class Status(Enum):
    """Whether a share partition serves members: LOADING -> ACTIVE -> FENCED, or LOADING -> FENCED."""

    LOADING = 0
    ACTIVE = 1
    FENCED = 2
    """This node no longer leads the partition, or the group has a newer state."""


class SharePartition:
    """Delivers the records of one partition to the members of one share group."""

    def __init__(
        self, key: SharePartitionKey, leader_epoch: LeaderEpoch, limits: DeliveryLimits, timers: LockTimers
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.limits = limits
        """The current settings of the group, which the caller may replace."""
        self.status = Status.LOADING
        self._state_epoch = 0
        self._timers = timers
        self._ranges = InFlightRanges()

    # ---- loading

    def load(self, stored: StoredState, start_offset: Offset) -> None:
        """Continue with the stored state.

        `start_offset` is that of the stored state, or where a new group begins.
        Raise ValueError if the states are not sorted, or are below the start offset.
        """
        assert self.status is Status.LOADING, self.status
        self._state_epoch = stored.state_epoch
        ranges = self._ranges
        ranges.restart_at(start_offset)
        for batch in stored.batches:
            if batch.first_offset < ranges.end_offset or batch.last_offset < batch.first_offset:
                raise ValueError(f"the stored state of {self.key} has {batch} at {ranges.end_offset}")
            if batch.first_offset > ranges.end_offset:
                # These records were acquired, and nothing about them was stored.
                ranges.append(_available(ranges.end_offset, batch.first_offset))
            ranges.append(_restored(batch))
        ranges.advance_start()
        self.status = Status.ACTIVE

    def fence(self) -> None:
        """Serve no more members, and stop all timers. Changes whose write has not begun are not stored."""
        self.status = Status.FENCED
        self._ranges.drop_before(self._ranges.end_offset)

    # ---- fetching

    @property
    def start_offset(self) -> Offset:
        """The first offset whose delivery is not complete."""
        return self._ranges.start_offset

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record that was delivered."""
        return self._ranges.end_offset

    @property
    def in_flight_count(self) -> int:
        """The number of records in flight."""
        return self._ranges.record_count

    @property
    def range_count(self) -> int:
        """The number of ranges of records in flight."""
        return len(self._ranges)

    @property
    def delivery_complete_count(self) -> int:
        """The number of records in flight whose delivery is complete."""
        return self._ranges.final_count

    def next_fetch_offset(self) -> Offset:
        """Return the first offset that a member can acquire."""
        available = self._ranges.first_available_offset()
        return self._ranges.end_offset if available is None else available

    @property
    def can_acquire(self) -> bool:
        """Whether a member can acquire records, if the log has any."""
        if self.status is not Status.ACTIVE:
            return False
        return (
            self._ranges.record_count < self.limits.records_in_flight_max
            or self._ranges.first_available_offset() is not None
        )

    def acquire(
        self, request: AcquireRequest, fetch_offset: Offset, batches: Iterable[FetchedBatch]
    ) -> list[AcquiredRecords]:
        """Acquire records of `batches`, which were read from `fetch_offset` on, for a member."""
        if self.status is not Status.ACTIVE:
            return []
        lock = AcquisitionLock()
        acquisition = Acquisition(self._ranges, self.limits, request, lock, fetch_offset)
        try:
            for number, batch in enumerate(batches, 1):
                if not acquisition.add(batch) or number == BATCHES_PER_ACQUISITION:
                    break
        finally:
            # After an error, the records that are acquired already become available by their lock only.
            lock.start(self._timers, self.limits.lock_duration_ms)
        acquired = acquisition.acquired
        self._ranges.advance_start()
        return acquired

    # ---- acknowledging and releasing

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgedBatch]) -> Steps[StateChange]:
        """Return the change of acknowledged records, which the caller stores.

        Records below the start offset are ignored. An error undoes all changes.
        Errors: KafkaError INVALID_RECORD_STATE, INVALID_REQUEST.
        """
        change, renewed = StateChange(), AcquisitionLock()
        run_count = 0
        try:
            for batch in batches:
                if batch.last_offset < self._ranges.start_offset:
                    continue
                self._check_in_flight(batch)
                # The part that is in flight is bounded; a request may name many offsets below it.
                for run in runs_of(batch.from_offset(self._ranges.start_offset)):
                    self._acknowledge(member_id, run, change, renewed)
                    run_count += 1
                    if not run_count % _RUNS_PER_STEP:
                        yield None
        except BaseException:
            self.roll_back(change)
            raise
        finally:
            renewed.start(self._timers, self.limits.lock_duration_ms)
        return change

    def _check_in_flight(self, batch: AcknowledgedBatch) -> None:
        ranges = self._ranges
        if not len(ranges):
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, f"{self.key}: no records are in flight, also not {batch[:2]}"
            )
        if batch.last_offset >= ranges.end_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{self.key}: offset {batch.last_offset} is above the last acquired offset "
                f"{ranges.end_offset - 1}",
            )

    def _acknowledge(
        self, member_id: str, run: AcknowledgedRun, change: StateChange, renewed: AcquisitionLock
    ) -> None:
        """Change the states of one run, or renew its locks."""
        ranges, limits = self._ranges, self.limits
        for one in ranges.divided(run.first_offset, run.end_offset):
            if one.is_gap and one.change is None:
                continue
            self._check_owner(one, member_id)
            if run.type is AcknowledgeType.RENEW:
                if not limits.can_renew:
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD_STATE,
                        f"group {self.key.group_id} does not allow to renew acquisition locks",
                    )
                one.release_lock()
                one.lock = renewed
                renewed.hold(one.first_offset, one.end_offset)
                continue
            state = STATE_OF[run.type]
            if state is RecordState.AVAILABLE:
                state = self._state_after_delivery(one)
            ranges.begin_change(one, change, state, one.delivery_count)

    def _check_owner(self, one: InFlightRange, member_id: str) -> None:
        """Raise KafkaError unless the member has acquired the records, and no change is being stored."""
        if one.change is not None:
            reason = "are being acknowledged"
        elif one.state is not RecordState.ACQUIRED:
            reason = f"are {one.state.name.lower()}"
        elif one.member_id != member_id:
            reason = "are acquired by another member"
        else:
            return
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            f"{self.key}: records {one.first_offset} to {one.end_offset - 1} {reason}",
        )

    def _state_after_delivery(self, one: InFlightRange) -> RecordState:
        """Return the state of acquired records that were not accepted."""
        is_last = one.delivery_count >= self.limits.delivery_count_max
        return RecordState.ARCHIVED if is_last else RecordState.AVAILABLE

    def release(self, member_id: str) -> StateChange:
        """Return the change by which a member that leaves releases its records.

        The last delivery of the records does not count: the member may not have received them.
        """
        change = StateChange()
        if not self._ranges.record_count:
            return change
        for one in self._ranges.all():
            if one.state is RecordState.ACQUIRED and one.change is None and one.member_id == member_id:
                self._ranges.begin_change(one, change, RecordState.AVAILABLE, one.delivery_count - 1)
        return change

    def expire(self, lock: AcquisitionLock) -> StateChange:
        """End a lock: its records become available, or archived after the last delivery.

        The returned change is valid already. The caller stores it, and calls `commit` in any case.
        """
        lock.expire()
        change = StateChange()
        for one in self._ranges.overlapping(lock.first_offset, lock.end_offset):
            if one.lock is lock and one.change is None:
                state = self._state_after_delivery(one)
                self._ranges.set_state(one, state)
                one.member_id = ""
                one.release_lock()
                change.add(one.first_offset, one.end_offset, state, one.delivery_count)
        return change

    # ---- storing

    def write_of(self, change: StateChange) -> StateWrite:
        """Return what must be stored for a change."""
        assert self.status is Status.ACTIVE, self.status
        return StateWrite(
            share_partition=self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            batches=change.batches(self.start_offset),
        )

    def commit(self, change: StateChange) -> None:
        """Complete a change that has been stored."""
        if change:
            self._ranges.commit(change)
            self._ranges.merge_final(change.first_offset, change.end_offset)
            self._ranges.advance_start()

    def roll_back(self, change: StateChange) -> None:
        """Undo a change that could not be stored: the members still have the records."""
        self._ranges.roll_back(change, self._state_after_delivery)
        self._ranges.advance_start()

    # ---- following the log

    def move_start(self, log_start_offset: Offset) -> None:
        """Drop the records below the log start offset, which were deleted."""
        if log_start_offset > self._ranges.start_offset:
            self._ranges.drop_before(log_start_offset)


def _available(first_offset: Offset, end_offset: Offset) -> InFlightRange:
    """Return records of which nothing is known."""
    return InFlightRange(first_offset, end_offset, RecordState.AVAILABLE, 0, end_offset - first_offset)


def _restored(batch: ShareStateBatch) -> InFlightRange:
    state = RecordState(batch.delivery_state)
    if state is RecordState.ACQUIRED:
        raise ValueError(f"stored state {batch} is ACQUIRED, which is never stored")
    end_offset = batch.last_offset + 1
    return InFlightRange(
        batch.first_offset, end_offset, state, batch.delivery_count, end_offset - batch.first_offset
    )
