"""The records in flight of a share partition: ranges of offsets with the same state.

A range is divided only when a part of it gets another state, so that neither a fetch nor the
acknowledgement of a whole batch creates an object for a record. Neighbours with the same final state are
merged again. An offset without a record, for example of a compacted log, belongs to a range like any other.

Invariant: the ranges are sorted and cover [start_offset, end_offset) without gaps; a range has a lock if it
is ACQUIRED, or while its change from ACQUIRED is being stored.
Bounds: RANGES_MAX ranges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.broker.share_partitions.acquisition_lock import AcquisitionLock
from tidelog.broker.share_partitions.record_states import TRANSITIONS, RecordState
from tidelog.broker.share_partitions.state_change import StateChange
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

RANGES_MAX: Final = 20_000
"""A pass over this many ranges takes about 10 ms. The largest limit of records in flight is 10,000."""


class StateBefore(NamedTuple):
    """What a range was before its change."""

    state: RecordState
    delivery_count: int
    member_id: str


@dataclass(slots=True, eq=False)
class InFlightRange:
    """Offsets [`first_offset`, `end_offset`) with the same state."""

    first_offset: Offset
    end_offset: Offset
    state: RecordState
    delivery_count: int
    batch_records: int
    """The number of records that were acquired together when they were delivered first."""
    member_id: str = ""
    lock: AcquisitionLock | None = None
    change: StateChange | None = None
    """The change that is being stored."""
    before: StateBefore | None = None
    """The state before `change`."""

    @property
    def record_count(self) -> int:
        """The number of offsets."""
        return self.end_offset - self.first_offset

    @property
    def is_available(self) -> bool:
        """Whether the records can be acquired now."""
        return self.state is RecordState.AVAILABLE and self.change is None

    @property
    def is_gap(self) -> bool:
        """Whether the log has no record to deliver at these offsets."""
        return self.state is RecordState.ARCHIVED and self.delivery_count == 0

    def release_lock(self) -> None:
        """Release the lock, if there is one."""
        if self.lock is not None:
            self.lock.release(self.record_count)
            self.lock = None

    def has_same_final_state(self, other: InFlightRange) -> bool:
        """Return whether both ranges can be merged: their states are final, stored and equal."""
        return (
            self.state is other.state
            and self.state.is_final
            and self.change is None
            and other.change is None
            and self.delivery_count == other.delivery_count
        )


class InFlightRanges:
    """Owns the ranges, the two offsets around them, and the number of records that are final."""

    def __init__(self) -> None:
        self.start_offset: Offset = 0
        self.end_offset: Offset = 0
        self.final_count = 0
        """The number of offsets between both whose state is final."""
        self._ranges: list[InFlightRange] = []
        self._may_have_available = False

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def record_count(self) -> int:
        """The number of offsets in flight."""
        return self.end_offset - self.start_offset

    def all(self) -> Iterable[InFlightRange]:
        """Return all ranges."""
        return self._ranges

    def restart_at(self, offset: Offset) -> None:
        """Continue with the record at `offset`, with nothing in flight."""
        assert not self._ranges, f"{len(self._ranges)} ranges are in flight"
        self.start_offset = self.end_offset = offset

    # ---- looking up

    def first_available_offset(self) -> Offset | None:
        """Return the first offset that can be acquired again; None if there is none."""
        if self._may_have_available:
            for one in self._ranges:
                if one.state is RecordState.AVAILABLE and one.change is None:
                    return one.first_offset
            self._may_have_available = False
        return None

    def overlapping(self, first_offset: Offset, end_offset: Offset) -> list[InFlightRange]:
        """Return the ranges with offsets of [`first_offset`, `end_offset`), which may extend beyond it."""
        first = max(first_offset, self.start_offset)
        end = min(end_offset, self.end_offset)
        if first >= end:
            return []
        begin = self._index_of(first)
        finish = self._index_of(end - 1) + 1
        return self._ranges[begin:finish]

    def divided(self, first_offset: Offset, end_offset: Offset) -> list[InFlightRange]:
        """Return the ranges of [`first_offset`, `end_offset`); divide those that extend beyond it.

        Errors: KafkaError if there would be more than RANGES_MAX ranges.
        """
        first = max(first_offset, self.start_offset)
        end = min(end_offset, self.end_offset)
        if first >= end:
            return []
        begin = self._divide(first)
        finish = self._divide(end)
        return self._ranges[begin:finish]

    def _index_of(self, offset: Offset) -> int:
        return bisect_right(self._ranges, offset, key=_FIRST_OFFSET) - 1

    def _divide(self, offset: Offset) -> int:
        """Return the index of the range that begins at `offset`; divide the range around it if necessary."""
        if offset == self.end_offset:
            return len(self._ranges)
        index = self._index_of(offset)
        one = self._ranges[index]
        if one.first_offset == offset:
            return index
        if len(self._ranges) >= RANGES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the records in flight have more than {RANGES_MAX} ranges of different states; "
                "acknowledge ranges of records",
            )
        rest = replace(one, first_offset=offset)
        one.end_offset = offset
        self._ranges.insert(index + 1, rest)
        return index + 1

    # ---- changing states

    def append(self, added: InFlightRange) -> None:
        """Add a range at the end."""
        assert added.first_offset == self.end_offset, f"a range at {added.first_offset}"
        self._ranges.append(added)
        self.end_offset = added.end_offset
        if added.state.is_final:
            self.final_count += added.record_count
        elif added.state is RecordState.AVAILABLE:
            self._may_have_available = True

    def extend_last(self, end_offset: Offset) -> None:
        """Add offsets with the state of the last range."""
        last = self._ranges[-1]
        assert last.state is RecordState.ACQUIRED, last
        last.batch_records += end_offset - last.end_offset
        self.end_offset = last.end_offset = end_offset

    def set_state(self, one: InFlightRange, state: RecordState) -> None:
        """Change the state of a range."""
        assert state in TRANSITIONS[one.state], f"{one.state.name} to {state.name}"
        self._replace_state(one, state)

    def begin_change(
        self, one: InFlightRange, change: StateChange, state: RecordState, delivery_count: int
    ) -> None:
        """Change the state of an acquired range until `change` is committed or rolled back."""
        one.before = StateBefore(one.state, one.delivery_count, one.member_id)
        one.change = change
        self.set_state(one, state)
        one.delivery_count = delivery_count
        one.member_id = ""
        change.add(one.first_offset, one.end_offset, state, delivery_count)

    def commit(self, change: StateChange) -> None:
        """Complete a change that has been stored."""
        for one in self._changed_by(change):
            one.release_lock()
            one.change = one.before = None
            if one.state is RecordState.AVAILABLE:
                self._may_have_available = True

    def roll_back(
        self, change: StateChange, state_after_lock: Callable[[InFlightRange], RecordState]
    ) -> None:
        """Restore the states before a change.

        Ranges whose lock has expired meanwhile get the state that `state_after_lock` returns.
        """
        for one in self._changed_by(change):
            assert one.before is not None and one.lock is not None
            self._replace_state(one, one.before.state)
            one.delivery_count, one.member_id = one.before.delivery_count, one.before.member_id
            one.change = one.before = None
            if one.lock.is_expired:
                self.set_state(one, state_after_lock(one))
                one.release_lock()
                one.member_id = ""

    def _changed_by(self, change: StateChange) -> list[InFlightRange]:
        if not change:
            return []
        return [
            one for one in self.overlapping(change.first_offset, change.end_offset) if one.change is change
        ]

    def archive_available(self, first_offset: Offset, end_offset: Offset) -> None:
        """Archive the available records of [`first_offset`, `end_offset`): the log has no records there."""
        for one in self.divided(first_offset, end_offset):
            if one.is_available:
                self.set_state(one, RecordState.ARCHIVED)

    def _replace_state(self, one: InFlightRange, state: RecordState) -> None:
        self.final_count += (state.is_final - one.state.is_final) * one.record_count
        one.state = state
        if state is RecordState.AVAILABLE:
            self._may_have_available = True

    # ---- moving the offsets

    def advance_start(self) -> None:
        """Remove the first ranges if they are final, and merge final neighbours."""
        ranges, count = self._ranges, 0
        for one in ranges:
            if one.change is not None or not one.state.is_final:
                break
            count += 1
        if count:
            self.drop_before(ranges[count - 1].end_offset)

    def merge_final(self, first_offset: Offset, end_offset: Offset) -> None:
        """Merge the neighbours around [`first_offset`, `end_offset`) that have the same final state."""
        ranges = self._ranges
        affected = self.overlapping(first_offset - 1, end_offset + 1)
        if len(affected) < 2:
            return
        begin = self._index_of(affected[0].first_offset)
        merged = [affected[0]]
        for one in affected[1:]:
            if merged[-1].has_same_final_state(one):
                merged[-1].end_offset = one.end_offset
            else:
                merged.append(one)
        if len(merged) < len(affected):
            ranges[begin : begin + len(affected)] = merged

    def drop_before(self, offset: Offset) -> None:
        """Make `offset`, which is higher, the start offset; drop the ranges below it."""
        if offset >= self.end_offset:
            self._drop(0, len(self._ranges))
            self.start_offset = self.end_offset = offset
            return
        self._drop(0, self._divide_for_drop(offset))
        self.start_offset = offset

    def _divide_for_drop(self, offset: Offset) -> int:
        """Return what `_divide` returns; the bound does not matter, because one of both parts is dropped."""
        index = self._index_of(offset)
        one = self._ranges[index]
        if one.first_offset == offset:
            return index
        self._ranges.insert(index + 1, replace(one, first_offset=offset))
        one.end_offset = offset
        return index + 1

    def _drop(self, begin: int, finish: int) -> None:
        for one in self._ranges[begin:finish]:
            one.release_lock()
            if one.state.is_final:
                self.final_count -= one.record_count
        del self._ranges[begin:finish]


_FIRST_OFFSET: Final = attrgetter("first_offset")
