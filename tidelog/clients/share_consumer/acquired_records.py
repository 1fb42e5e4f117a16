"""The records that a share consumer has acquired, and their acknowledgements.

Pure. A range of acquired records has one type for all of them until the application acknowledges single
records. Offsets without a record, for example those of transaction markers, are acknowledged as gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple

from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.protocol.ids import Offset
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

UNDECIDED: Final = 0xFF
"""Stands for a record that the application has not acknowledged yet."""


class AcquiredOffsets(NamedTuple):
    """Acquired offsets of a response, inclusive."""

    first_offset: Offset
    last_offset: Offset
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Acknowledged offsets, inclusive: one type for all of them, or one for each."""

    first_offset: Offset
    last_offset: Offset
    types: tuple[int, ...]


class AcquiredRange:
    """Acquired offsets with their records; `delivery_count` is the same for all of them."""

    __slots__ = ("_types", "delivery_count", "first_offset", "last_offset", "records")

    def __init__(self, offsets: AcquiredOffsets, records: list[ConsumerRecord]) -> None:
        self.first_offset, self.last_offset, self.delivery_count = offsets
        self.records = records
        self._types: bytearray | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every offset has a record."""
        return len(self.records) == self.last_offset - self.first_offset + 1

    @property
    def undecided_count(self) -> int:
        """The number of records that are not acknowledged."""
        return len(self.records) if self._types is None else self._types.count(UNDECIDED)

    def decide(self, offset: Offset, kind: AcknowledgeType) -> bool:
        """Acknowledge one record; return False if there is no record at this offset."""
        types = self._types_of_offsets()
        at = offset - self.first_offset
        if types[at] == AcknowledgeType.GAP:
            return False
        types[at] = kind
        return True

    def decide_rest(self, kind: AcknowledgeType) -> None:
        """Acknowledge all records that are not acknowledged yet."""
        if self._types is not None or not self.is_complete or kind is not AcknowledgeType.ACCEPT:
            types = self._types_of_offsets()
            types[:] = types.replace(bytes((UNDECIDED,)), bytes((kind,)))

    def acknowledgement(self) -> Acknowledgement:
        """Return the acknowledgement of all offsets; without a decision they are accepted."""
        if self._types is None:
            self.decide_rest(AcknowledgeType.ACCEPT)
        types = (AcknowledgeType.ACCEPT,) if self._types is None else tuple(self._types)
        if len(types) > 1 and types.count(types[0]) == len(types):
            types = types[:1]
        return Acknowledgement(self.first_offset, self.last_offset, types)

    def divided(self) -> tuple[list[AcquiredRange], list[AcquiredRange]]:
        """Return the acknowledged and the other parts of the range."""
        if not self.undecided_count:
            return [self], []
        if self.undecided_count == len(self.records):
            return [], [self]
        assert self._types is not None
        parts: tuple[list[AcquiredRange], list[AcquiredRange]] = ([], [])
        records = iter(self.records)
        at = 0
        for is_undecided, run in groupby(self._types, lambda kind: kind == UNDECIDED):
            types = bytearray(run)
            first = self.first_offset + at
            at += len(types)
            offsets = AcquiredOffsets(first, first + len(types) - 1, self.delivery_count)
            part = AcquiredRange(
                offsets, list(islice(records, len(types) - types.count(AcknowledgeType.GAP)))
            )
            if not is_undecided:
                part._types = types
            parts[is_undecided].append(part)
        return parts

    def renewed(self) -> list[AcquiredRange]:
        """Return the renewed records as ranges of consecutive offsets, which are not acknowledged yet."""
        kinds = self._types
        if kinds is None or AcknowledgeType.RENEW not in kinds:
            return []
        ranges: list[AcquiredRange] = []
        for record in self.records:
            if kinds[record.offset - self.first_offset] != AcknowledgeType.RENEW:
                continue
            if not ranges or ranges[-1].last_offset != record.offset - 1:
                offsets = AcquiredOffsets(record.offset, record.offset - 1, self.delivery_count)
                ranges.append(AcquiredRange(offsets, []))
            ranges[-1].records.append(record)
            ranges[-1].last_offset = record.offset
        return ranges

    def _types_of_offsets(self) -> bytearray:
        if self._types is None:
            count = self.last_offset - self.first_offset + 1
            if self.is_complete:
                self._types = bytearray([UNDECIDED]) * count
            else:
                self._types = bytearray(count)
                for record in self.records:
                    self._types[record.offset - self.first_offset] = UNDECIDED
        return self._types


def acquired_ranges(
    acquired: Iterable[AcquiredOffsets], batches: Iterable[list[ConsumerRecord]]
) -> list[AcquiredRange]:
    """Return the acquired ranges with their records; `batches` may contain records of other members."""
    ranges = [AcquiredRange(offsets, []) for offsets in acquired]
    remaining: Iterator[AcquiredRange] = iter(ranges)
    current = next(remaining, None)
    for records in batches:
        while current is not None and records and current.last_offset < records[0].offset:
            current = next(remaining, None)
        if current is None:
            break
        if current.first_offset <= records[0].offset and records[-1].offset <= current.last_offset:
            # The whole batch is acquired, as in most cases.
            current.records.extend(records)
            continue
        for record in records:
            while current is not None and current.last_offset < record.offset:
                current = next(remaining, None)
            if current is None:
                break
            if record.offset >= current.first_offset:
                current.records.append(record)
    return ranges


def merged(acknowledgements: Sequence[Acknowledgement]) -> list[Acknowledgement]:
    """Return acknowledgements in the order of their offsets; neighbours with the same type become one."""
    result: list[Acknowledgement] = []
    for one in sorted(acknowledgements):
        last = result[-1] if result else None
        if (
            last is not None
            and last.last_offset + 1 == one.first_offset
            and len(last.types) == len(one.types) == 1
            and last.types == one.types
        ):
            result[-1] = Acknowledgement(last.first_offset, one.last_offset, one.types)
        else:
            result.append(one)
    return result
