"""The guarantees of the broker that a history violates (pure, one pass, linear).

Each record has one producer, which numbers its records; see history.py for the events.
All producers are idempotent, so each record is in the log once, and the records are in order.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tests.harness.soak.history import FINAL_READER, Event

_NUMBER_BITS = 40
_UNKNOWN = -1
_SHOWN_PER_KIND = 5


class Anomaly(Enum):
    """The kinds of violations, as in the report."""

    LOST = "an acknowledged record is not in the log"
    TWO_VALUES = "two values were read at one offset"
    DUPLICATE = "a record of an idempotent producer is stored twice"
    DISORDER = "records of one producer are not in the order they were sent"
    GAP = "a reader did not get consecutive offsets"
    INVENTED = "a record was read that was never sent"
    MISPLACED = "a record is in another partition than it was sent to"
    DAMAGED = "a record was read with other bytes than were sent"
    COMMIT_LOST = "a committed offset was lost or decreased"
    COMMIT_INVENTED = "a committed offset was never committed"
    RESUMED_EARLY = "a group resumed before its committed offset"
    RESUMED_LATE = "a group skipped records that it had not committed"
    ACCEPTED_TWICE = "a record was accepted by a member of a share group that got it after its acceptance"
    DELIVERED_AGAIN = "a record that a share group had accepted was delivered again"
    NOT_DELIVERED = "a record was not delivered to a share group"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated guarantee."""

    anomaly: Anomaly
    text: str


@dataclass
class Findings:
    """The counts and violations of a history; some violations of each anomaly are kept, all are counted."""

    violations: list[Violation] = field(default_factory=list)
    counts: Counter[Anomaly] = field(default_factory=Counter)
    sent: int = 0
    acknowledged: int = 0
    unknown: int = 0
    polled: int = 0
    in_log: int = 0
    commits: int = 0
    accepted: int = 0
    kills: int = 0

    def add(self, anomaly: Anomaly, text: str) -> None:
        """Add a violation."""
        self.counts[anomaly] += 1
        if self.counts[anomaly] <= _SHOWN_PER_KIND:
            self.violations.append(Violation(anomaly, text))


@dataclass
class _Partition:
    """The records by offset: producer, acknowledged or not, read or not."""

    values: array[int] = field(default_factory=lambda: array("q"))
    acknowledged: bytearray = field(default_factory=bytearray)
    read: bytearray = field(default_factory=bytearray)

    def extend_to(self, length: int) -> None:
        missing = length - len(self.values)
        if missing > 0:
            self.values.extend([_UNKNOWN] * missing)
            self.acknowledged.extend(bytes(missing))
            self.read.extend(bytes(missing))


@dataclass
class _Group:
    """Per partition: the largest acknowledged commit, and the largest requested one."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    requested: dict[int, int] = field(default_factory=dict)


class _ShareGroup:
    """The records that members of the share group got and accepted.

    A member may return a record late that it got before another member accepted it: the lock of its own
    delivery has ended meanwhile. A member that joined after the acceptance cannot.

    A member may also accept a record late that it got before another member accepted it: its lock has ended,
    or the partition has another leader, and acquisitions are not stored. As in Apache Kafka, an
    acknowledgement of records below the start offset of the share partition has no effect and no error.
    """

    def __init__(self) -> None:
        self._time = 0
        self._joined: dict[str, int] = {}
        self._delivered: dict[int, dict[int, dict[str, int]]] = {}
        """By partition and offset: when each member got the record last."""
        self._accepted: dict[int, dict[int, int]] = {}

    @property
    def has_members(self) -> bool:
        """Whether any member has joined."""
        return bool(self._joined)

    def on_joined(self, member: str) -> None:
        """Record that a member begins."""
        self._time += 1
        self._joined[member] = self._time

    def on_delivered(self, member: str, partition: int, offsets: Iterable[int]) -> None:
        """Record a delivery."""
        self._time += 1
        delivered = self._delivered.setdefault(partition, {})
        for offset in offsets:
            delivered.setdefault(offset, {})[member] = self._time

    def on_accepted(self, member: str, partition: int, offsets: Iterable[int]) -> list[int]:
        """Record a confirmed acceptance; return the offsets accepted before the member got them."""
        self._time += 1
        accepted = self._accepted.setdefault(partition, {})
        delivered = self._delivered.get(partition, {})
        return [
            offset
            for offset in offsets
            if accepted.setdefault(offset, self._time) < delivered.get(offset, {}).get(member, self._time)
        ]

    def has_accepted_before(self, member: str, partition: int, offset: int) -> bool:
        """Return whether a record was accepted before the member joined."""
        accepted_at = self._accepted.get(partition, {}).get(offset)
        return accepted_at is not None and accepted_at < self._joined.get(member, 0)

    def was_delivered(self, partition: int, offset: int) -> bool:
        """Return whether any member got a record."""
        return offset in self._delivered.get(partition, ())


class Checker:
    """Processes events with `feed`; `finish` returns the violations."""

    def __init__(self) -> None:
        self._findings = Findings()
        self._partitions: dict[int, _Partition] = {}
        self._sent: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._groups: dict[str, _Group] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._committed_before_query: dict[str, dict[int, int]] = {}
        self._share_group = _ShareGroup()

    def feed(self, event: Event) -> None:
        """Process the next event."""
        match event.f, event.type:
            case "send", "invoke":
                partition, first, last = event.value
                self._sent.setdefault((int(event.process), partition), []).append((first, last))
                self._findings.sent += last - first + 1
            case "send", "ok":
                self._on_acknowledgement(int(event.process), event.value)
            case "send", "info":
                self._findings.unknown += len(event.value)
            case "assign", "ok":
                self._on_assignment(event.process, event.value)
            case "poll", "ok":
                self._on_poll(event.process, *event.value)
            case "commit", _:
                self._on_commit(_group_of(event.process), event.type, event.value)
            case "committed", "invoke":
                group = self._groups.setdefault(_group_of(event.process), _Group())
                self._committed_before_query[event.process] = dict(group.acknowledged)
            case "committed", "ok":
                self._on_committed_offsets(event.process, dict(event.value))
            case "join", "ok":
                self._share_group.on_joined(event.process)
            case "deliver", "ok":
                self._on_delivery(event.process, *event.value)
            case "accept", "ok":
                self._on_accepted(event.process, *event.value)
            case "kill", "ok":
                self._findings.kills += 1

    def _partition(self, partition: int) -> _Partition:
        return self._partitions.setdefault(partition, _Partition())

    # ---- records

    def _on_acknowledgement(self, producer: int, acknowledged: list[tuple[int, int, int]]) -> None:
        for number, partition, offset in acknowledged:
            log = self._partition(partition)
            log.extend_to(offset + 1)
            self._place(log, partition, offset, producer << _NUMBER_BITS | number)
            log.acknowledged[offset] = 1
        self._findings.acknowledged += len(acknowledged)

    def _place(self, log: _Partition, partition: int, offset: int, value: int) -> None:
        existing = log.values[offset]
        if existing == _UNKNOWN:
            log.values[offset] = value
        elif existing != value:
            self._findings.add(
                Anomaly.TWO_VALUES,
                f"partition {partition} offset {offset}: {_show(existing)} and {_show(value)}",
            )

    def _on_poll(self, reader: str, partition: int, first: int, values: list[tuple[int, int]]) -> None:
        expected = self._positions.get((reader, partition))
        if expected is None:
            self._check_start(reader, partition, first)
        elif first != expected:
            self._findings.add(
                Anomaly.GAP,
                f"{reader} got offset {first} of partition {partition} after {expected - 1}",
            )
        end = first + len(values)
        self._positions[reader, partition] = end
        log = self._partition(partition)
        log.extend_to(end)
        for offset, (producer, number) in enumerate(values, first):
            if producer < 0:
                self._findings.add(Anomaly.DAMAGED, f"{reader}: partition {partition} offset {offset}")
                continue
            self._place(log, partition, offset, producer << _NUMBER_BITS | number)
            if reader == FINAL_READER:
                log.read[offset] = 1
        self._findings.polled += len(values)

    # ---- groups

    def _on_assignment(self, reader: str, partitions: list[int]) -> None:
        acknowledged = self._groups.setdefault(_group_of(reader), _Group()).acknowledged
        for partition in partitions:
            self._positions.pop((reader, partition), None)
            self._starts[reader, partition] = acknowledged.get(partition, 0)

    def _check_start(self, reader: str, partition: int, first: int) -> None:
        lower_bound = self._starts.get((reader, partition), 0)
        group = self._groups.get(_group_of(reader), _Group())
        upper_bound = max(group.requested.get(partition, 0), lower_bound)
        where = f"{reader} started partition {partition} at {first}, committed: {lower_bound}"
        if first < lower_bound:
            self._findings.add(Anomaly.RESUMED_EARLY, where)
        elif first > upper_bound:
            self._findings.add(Anomaly.RESUMED_LATE, f"{where} or at most {upper_bound}")

    def _on_commit(self, name: str, type: str, offsets: list[tuple[int, int]]) -> None:
        group = self._groups.setdefault(name, _Group())
        largest = {"invoke": group.requested, "ok": group.acknowledged}.get(type)
        if largest is None:
            return
        for partition, offset in offsets:
            largest[partition] = max(largest.get(partition, 0), offset)
        self._findings.commits += type == "ok"

    def _on_committed_offsets(self, process: str, offsets: dict[int, int]) -> None:
        group = self._groups[_group_of(process)]
        for partition, lower_bound in self._committed_before_query.pop(process).items():
            offset = offsets.get(partition)
            if offset is None or offset < lower_bound:
                self._findings.add(
                    Anomaly.COMMIT_LOST,
                    f"{process} partition {partition}: {offset}, committed before: {lower_bound}",
                )
        for partition, offset in offsets.items():
            upper_bound = group.requested.get(partition, 0)
            if offset > upper_bound:
                self._findings.add(
                    Anomaly.COMMIT_INVENTED,
                    f"{process} partition {partition}: {offset}, requested at most: {upper_bound}",
                )

    # ---- the share group

    def _on_delivery(self, member: str, partition: int, records: list[tuple[int, int, int]]) -> None:
        log = self._partition(partition)
        for offset, producer, number in records:
            where = f"{member}: partition {partition} offset {offset}"
            if producer < 0:
                self._findings.add(Anomaly.DAMAGED, where)
                continue
            log.extend_to(offset + 1)
            self._place(log, partition, offset, producer << _NUMBER_BITS | number)
            if self._share_group.has_accepted_before(member, partition, offset):
                self._findings.add(Anomaly.DELIVERED_AGAIN, where)
        self._share_group.on_delivered(member, partition, (offset for offset, _, _ in records))

    def _on_accepted(self, member: str, partition: int, offsets: list[int]) -> None:
        for offset in self._share_group.on_accepted(member, partition, offsets):
            self._findings.add(Anomaly.ACCEPTED_TWICE, f"{member}: partition {partition} offset {offset}")
        self._findings.accepted += len(offsets)

    # ---- the end

    def finish(self) -> Findings:
        """Return the violations of the whole history, which must have a final reader."""
        for partition, log in sorted(self._partitions.items()):
            self._check_lost(partition, log)
            self._check_delivered(partition, log)
        self._check_writers()
        return self._findings

    def _check_lost(self, partition: int, log: _Partition) -> None:
        for offset, is_acknowledged in enumerate(log.acknowledged):
            if is_acknowledged and not log.read[offset]:
                self._findings.add(
                    Anomaly.LOST, f"partition {partition} offset {offset}: {_show(log.values[offset])}"
                )

    def _check_delivered(self, partition: int, log: _Partition) -> None:
        """Check that the share group got every record, if there is one."""
        if not self._share_group.has_members:
            return
        for offset, is_read in enumerate(log.read):
            if is_read and not self._share_group.was_delivered(partition, offset):
                self._findings.add(
                    Anomaly.NOT_DELIVERED,
                    f"partition {partition} offset {offset}: {_show(log.values[offset])}",
                )

    def _check_writers(self) -> None:
        earlier_values: set[int] = set()
        ranges = {key: _numbers(spans) for key, spans in self._sent.items()}
        for partition, log in sorted(self._partitions.items()):
            last: dict[int, int] = {}
            for offset, value in enumerate(log.values):
                if value == _UNKNOWN:
                    continue
                self._findings.in_log += 1
                producer, number = value >> _NUMBER_BITS, value & (1 << _NUMBER_BITS) - 1
                where = f"partition {partition} offset {offset}: {_show(value)}"
                self._check_sent(ranges, producer, number, partition, where)
                if value in earlier_values:
                    self._findings.add(Anomaly.DUPLICATE, where)
                elif number < last.get(producer, -1):
                    self._findings.add(Anomaly.DISORDER, f"{where} after number {last[producer]}")
                earlier_values.add(value)
                last[producer] = max(number, last.get(producer, -1))

    def _check_sent(
        self,
        ranges: dict[tuple[int, int], set[int]],
        producer: int,
        number: int,
        partition: int,
        where: str,
    ) -> None:
        if number in ranges.get((producer, partition), ()):
            return
        elsewhere = any(number in numbers for (sender, _), numbers in ranges.items() if sender == producer)
        self._findings.add(Anomaly.MISPLACED if elsewhere else Anomaly.INVENTED, where)


def check(events: Iterable[Event]) -> Findings:
    """Return the violations of a whole history."""
    checker = Checker()
    for event in events:
        checker.feed(event)
    return checker.finish()


def _group_of(process: str) -> str:
    return process.partition("/")[0]


def _show(value: int) -> str:
    return f"producer {value >> _NUMBER_BITS} number {value & (1 << _NUMBER_BITS) - 1}"


def _numbers(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {number for first, last in spans for number in range(first, last + 1)}
