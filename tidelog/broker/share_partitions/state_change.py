"""A change of delivery states that is valid only when it has been stored."""

from __future__ import annotations

from tidelog.broker.coordinators.share.persister import ShareStateBatch
from tidelog.broker.share_partitions.record_states import RecordState
from tidelog.protocol.ids import Offset


class StateChange:
    """The new states of one change, as ranges in the order of their offsets.

    The ranges in flight that refer to it get no other state until it is committed or rolled back.
    """

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[Offset, Offset, RecordState, int]] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    @property
    def first_offset(self) -> Offset:
        """The first changed offset."""
        return self._ranges[0][0]

    @property
    def end_offset(self) -> Offset:
        """The offset after the last changed one."""
        return self._ranges[-1][1]

    def add(self, first_offset: Offset, end_offset: Offset, state: RecordState, delivery_count: int) -> None:
        """Add the new state of [`first_offset`, `end_offset`), which is above all ranges before."""
        if self._ranges:
            last = self._ranges[-1]
            if last[1:] == (first_offset, state, delivery_count):
                self._ranges[-1] = (last[0], end_offset, state, delivery_count)
                return
        self._ranges.append((first_offset, end_offset, state, delivery_count))

    def batches(self, start_offset: Offset) -> tuple[ShareStateBatch, ...]:
        """Return the states to store, without those below `start_offset`."""
        return tuple(
            ShareStateBatch(max(first, start_offset), end - 1, state, delivery_count)
            for first, end, state, delivery_count in self._ranges
            if end > start_offset
        )
