"""The guarantees of transactions that a history violates (pure, linear but for a sort).

Every record is [producer, transaction, number]: producers number their transactions, and the records of each.
Events are those of `history`, with these values:

| f      | type             | value |
|--------|------------------|-------|
| send   | invoke           | [transaction, partition, number]: may be written from now on |
| send   | ok               | [transaction, partition, number, offset]: acknowledged |
| offset | invoke           | [transaction, partition, offset]: to be committed with the transaction |
| commit | invoke, ok, info | transaction; info: the response was an error or missing, the result is unknown |
| abort  | invoke, ok, info | the same |
| poll   | ok               | [partition, [[offset, producer, transaction, number], ...]], by a reader |
| stable | ok               | [partition, last stable offset], queried by a reader after its polls |
| committed | ok            | [partition, offset]: the group's committed offset at the end |

A reader whose name begins with "uncommitted" reads all records, others read committed ones; FINAL_READER
reads all committed records after the end of all transactions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tests.harness.soak.history import FINAL_READER, Event

UNCOMMITTED_READER = "uncommitted"


class Anomaly(Enum):
    """The kinds of violations, as in the report."""

    LOST = "a record that was acknowledged in a committed transaction is missing"
    INCOMPLETE = "a part of a transaction is missing"
    ABORTED_READ = "a record of an aborted transaction was read as committed"
    EARLY_READ = "a record was read as committed before its commit was requested"
    BEYOND_STABLE_OFFSET = "a committed record was read beyond the last stable offset"
    STABLE_OFFSET_DECREASED = "the last stable offset decreased"
    DUPLICATE = "a record is stored twice"
    DISORDER = "records of one producer are not in the order they were sent"
    TWO_VALUES = "two values were read at one offset"
    INVENTED = "a record was read that was never sent"
    MISPLACED = "a record is at another offset than its acknowledgement"
    OFFSET_WRONG = "the committed offset is not that of the last committed transaction"


class Name(NamedTuple):
    """The name of a transaction."""

    producer: str
    number: int


class Violation(NamedTuple):
    """One violated guarantee."""

    anomaly: Anomaly
    text: str


@dataclass(slots=True)
class _Transaction:
    """The records and the result of a transaction (None: unknown, or not yet known)."""

    sent: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    commit_requested: int | None = None
    commit_acknowledged: int | None = None
    is_committed: bool | None = None
    read: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


class TransactionChecker:
    """Processes events with `feed`; `finish` returns the violations."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.transactions: dict[Name, _Transaction] = defaultdict(_Transaction)
        self._values: dict[tuple[int, int], tuple[str, int, int]] = {}
        self._highest: dict[tuple[str, int], int] = {}
        self._stable: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._now = 0

    def feed(self, event: Event) -> None:
        """Process the next event."""
        self._now += 1
        match event.f, event.type:
            case "send", "invoke":
                number, partition, record = event.value
                self.transactions[Name(event.process, number)].sent[record] = partition
            case "send", "ok":
                number, partition, record, offset = event.value
                self.transactions[Name(event.process, number)].acknowledged[record] = (partition, offset)
            case "offset", "invoke":
                number, partition, offset = event.value
                self.transactions[Name(event.process, number)].offsets[partition] = offset
            case "commit", "invoke":
                self.transactions[Name(event.process, event.value)].commit_requested = self._now
            case "commit", "ok":
                transaction = self.transactions[Name(event.process, event.value)]
                transaction.is_committed, transaction.commit_acknowledged = True, self._now
            case "abort", "ok":
                self.transactions[Name(event.process, event.value)].is_committed = False
            case "poll", "ok":
                self._on_poll(event.process, *event.value)
            case "stable", "ok":
                self._on_stable_offset(event.process, *event.value)
            case "committed", "ok":
                partition, offset = event.value
                self._committed[partition] = offset

    def finish(self) -> list[Violation]:
        """Return the violations after the last event."""
        for name, transaction in self.transactions.items():
            self._check_transaction(name, transaction)
        self._check_order()
        self._check_offsets()
        return self.violations

    def _add(self, anomaly: Anomaly, text: str) -> None:
        self.violations.append(Violation(anomaly, text))

    # --- during the history ---

    def _on_poll(self, reader: str, partition: int, records: Iterable[tuple[int, str, int, int]]) -> None:
        for offset, producer, number, record in records:
            name = Name(producer, number)
            value = (producer, number, record)
            first_value = self._values.setdefault((partition, offset), value)
            if first_value != value:
                self._add(Anomaly.TWO_VALUES, f"{partition}@{offset}: {first_value} and {value}")
            transaction = self.transactions.get(name)
            if transaction is None or record not in transaction.sent:
                self._add(Anomaly.INVENTED, f"{partition}@{offset}: {value}")
                continue
            place = transaction.acknowledged.get(record, (transaction.sent[record], offset))
            if place != (partition, offset):
                self._add(Anomaly.MISPLACED, f"{value} at {partition}@{offset}, sent to {place}")
            if reader.startswith(UNCOMMITTED_READER):
                continue
            self._highest[reader, partition] = max(offset, self._highest.get((reader, partition), -1))
            if transaction.commit_requested is None:
                self._add(Anomaly.EARLY_READ, f"{value} at {partition}@{offset}")
            if reader == FINAL_READER:
                transaction.read[record].append((partition, offset))
            elif transaction.is_committed is False:
                self._add(Anomaly.ABORTED_READ, f"{value} at {partition}@{offset} by {reader}")

    def _on_stable_offset(self, reader: str, partition: int, offset: int) -> None:
        if offset < self._stable.get(partition, 0):
            self._add(
                Anomaly.STABLE_OFFSET_DECREASED, f"{partition}: {self._stable[partition]}, then {offset}"
            )
        self._stable[partition] = max(offset, self._stable.get(partition, 0))
        if self._highest.get((reader, partition), -1) >= offset:
            highest = self._highest[reader, partition]
            self._add(
                Anomaly.BEYOND_STABLE_OFFSET,
                f"{reader} read {partition}@{highest}, last stable offset: {offset}",
            )

    # --- at the end ---

    def _check_transaction(self, name: Name, transaction: _Transaction) -> None:
        read = transaction.read
        for record, places in read.items():
            if len(places) > 1:
                self._add(Anomaly.DUPLICATE, f"{name} record {record} at {places}")
        if transaction.is_committed is False and read:
            self._add(Anomaly.ABORTED_READ, f"{name}: {sorted(read)}")
            return
        missing = transaction.sent.keys() - read.keys()
        if read and missing:
            self._add(Anomaly.INCOMPLETE, f"{name}: {sorted(read)} were read, {sorted(missing)} are missing")
        if transaction.is_committed:
            lost = transaction.acknowledged.keys() - read.keys()
            if lost:
                self._add(Anomaly.LOST, f"{name}: {sorted(lost)}")

    def _check_order(self) -> None:
        """Check that each producer's transactions, and their records, are in order within a partition."""
        placements: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
        for name, transaction in self.transactions.items():
            for record, places in transaction.read.items():
                for partition, offset in places:
                    placements[name.producer, partition].append((offset, name.number, record))
        for (producer, partition), records in placements.items():
            records.sort()
            order = [(number, record) for _, number, record in records]
            if order != sorted(order):
                self._add(Anomaly.DISORDER, f"producer {producer} in partition {partition}: {order}")

    def _check_offsets(self) -> None:
        """Check that a group's committed offset is that of one of its last transactions.

        It is not the last one if another's commit was requested after its own was acknowledged. Commits
        that overlap, or have an unknown result, may be in any order.
        """
        for partition, reported in self._committed.items():
            transactions = [
                transaction
                for transaction in self.transactions.values()
                if partition in transaction.offsets
                and transaction.commit_requested is not None
                and transaction.is_committed is not False
            ]
            last_requested = max(
                (one.commit_requested or 0 for one in transactions if one.is_committed), default=0
            )
            possible = {
                one.offsets[partition]
                for one in transactions
                if one.commit_acknowledged is None or one.commit_acknowledged >= last_requested
            }
            if reported not in possible:
                text = f"partition {partition}: {reported}, possible offsets: {sorted(possible)}"
                self._add(Anomaly.OFFSET_WRONG, text)


def check(events: Iterable[Event]) -> list[Violation]:
    """Return the violations of a whole history."""
    checker = TransactionChecker()
    for event in events:
        checker.feed(event)
    return checker.finish()
