"""Records in the format of a coordinator's log, with the sum of their sizes.

The log compares the size of a batch with its limit before it builds the batch. To add up the sizes of 40,000
records takes 5 ms, so the sum is updated whenever a record is added. I/O: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

EncodedRecord: TypeAlias = tuple[bytes, bytes | None]
"""The key and the value of a record; the value is None for a tombstone."""


class EncodedRecords:
    """The keys and values of records, in order. `size_bytes` is the size of all keys and values."""

    __slots__ = ("records", "size_bytes")

    def __init__(self, records: Iterable[EncodedRecord] = ()) -> None:
        self.records: list[EncodedRecord] = []
        self.size_bytes = 0
        for record in records:
            self.append(record)

    def append(self, record: EncodedRecord) -> None:
        """Add one record."""
        key, value = record
        self.records.append(record)
        self.size_bytes += len(key) if value is None else len(key) + len(value)

    def extend(self, other: EncodedRecords) -> None:
        """Add all records of `other`."""
        self.records += other.records
        self.size_bytes += other.size_bytes
