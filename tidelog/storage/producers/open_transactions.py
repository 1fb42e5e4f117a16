"""The transactions of one partition that are not stable yet, in the order of their first offsets.

    open, until a marker ends it --> unreplicated, until the marker is below the high watermark --> stable

Source: ProducerStateManager of Apache Kafka 4.3 (ongoingTxns, unreplicatedTxns); KIP-98.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.protocol.ids import Offset, ProducerId
from tidelog.storage.producers.producer_entry import ProducerEntry


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` has ended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class _UnreplicatedTransaction(NamedTuple):
    first_offset: Offset
    last_offset: Offset


class OpenTransactions:
    """The open transactions by first offset, and those whose marker is not replicated yet.

    Invariant: `_open` (first offset -> producer) ascends and has one entry per producer with an open
    transaction, or whose marker is being completed; `_unreplicated` ascends.
    """

    __slots__ = ("_open", "_unreplicated")

    def __init__(self) -> None:
        self._open: OrderedDict[Offset, ProducerId] = OrderedDict()
        self._unreplicated: list[_UnreplicatedTransaction] = []

    @property
    def oldest_producer_id(self) -> ProducerId | None:
        """The producer of the oldest open transaction; None if no transaction is open."""
        return next(iter(self._open.values()), None)

    @property
    def first_undecided_offset(self) -> Offset | None:
        """Where the oldest open transaction starts; None if no transaction is open."""
        return next(iter(self._open), None)

    def begin(self, producer_id: ProducerId, first_offset: Offset) -> None:
        """Record that a producer has begun a transaction with the batch at `first_offset`."""
        self._open[first_offset] = producer_id

    def last_stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """Return the last stable offset after `completed`: where the next open transaction starts."""
        for first_offset, producer_id in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Record that the marker is in the log and the index; replication makes its offsets stable."""
        removed = self._open.pop(completed.first_offset, None)
        assert removed is not None, f"{completed} was never started"
        insort(self._unreplicated, _UnreplicatedTransaction(completed.first_offset, completed.last_offset))

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        """Return the first offset of a transaction without a marker, or with one above the high watermark.

        Transactions with a marker below the high watermark are dropped: it must not fall without a reload.
        """
        self.drop_ended_below(high_watermark)
        undecided = self.first_undecided_offset
        if not self._unreplicated:
            return undecided
        unreplicated = self._unreplicated[0].first_offset
        return unreplicated if undecided is None else min(undecided, unreplicated)

    def drop_ended_below(self, offset: Offset) -> None:
        """Drop transactions whose marker is below `offset`."""
        if self._unreplicated:
            self._unreplicated = [each for each in self._unreplicated if each.last_offset >= offset]

    def load(self, producers: Iterable[ProducerEntry]) -> None:
        """Use the open transactions of `producers` in place of those known before."""
        self._open = OrderedDict(
            sorted(
                (entry.transaction_first_offset, entry.producer_id)
                for entry in producers
                if entry.transaction_first_offset is not None
            )
        )

    def clear(self) -> None:
        """Drop all transactions."""
        self._open.clear()
        self._unreplicated.clear()
