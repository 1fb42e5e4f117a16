"""What was read, reduced to what must be equal: count, order per key, and every byte.

A running SHA-256 per key depends on the order of that key's values; the digests of all keys
together, sorted by key, do not depend on how partitions were interleaved.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

# Partition, offset, key, value.
Record = tuple[int, int, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Equal fingerprints mean equal content in equal order per key.

    `crc_sum` adds up the CRC-32 of each record, key and value: it is the same in any order.
    """

    records: int
    size_bytes: int
    keys: int
    sha256: str
    crc_sum: int


class Content:
    """Records by key, as far as a fingerprint needs them."""

    def __init__(self) -> None:
        self._records = 0
        self._size_bytes = 0
        self._crc_sum = 0
        self._by_key: dict[bytes, hashlib._Hash] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record, in the order of its partition."""
        name, data = key or b"", value or b""
        digest = self._by_key.get(name)
        if digest is None:
            digest = self._by_key[name] = hashlib.sha256()
        # The length first: two records are not one record with the bytes of both.
        digest.update(b"%d:" % len(data))
        digest.update(data)
        self._records += 1
        self._size_bytes += len(name) + len(data)
        self._crc_sum += zlib.crc32(data, zlib.crc32(name))

    @property
    def records(self) -> int:
        """How many records were taken."""
        return self._records

    def fingerprint(self) -> Fingerprint:
        """The sum of what was taken."""
        whole = hashlib.sha256()
        for key in sorted(self._by_key):
            whole.update(b"%d:" % len(key) + key + self._by_key[key].digest())
        return Fingerprint(
            self._records, self._size_bytes, len(self._by_key), whole.hexdigest(), self._crc_sum
        )


class OffsetGap(Exception):
    """A partition's offsets did not continue where they were: records are missing."""


class Received:
    """What the members of one group got together; safe for members in threads.

    Records that come again after a rebalance are passed over, records that are missing raise
    OffsetGap: every partition must give offset 0, 1, 2 ... in this order.
    """

    def __init__(self) -> None:
        self.content = Content()
        self.repeated = 0
        self.members: dict[int, int] = {}
        self._next_offsets: dict[int, int] = {}
        self._lock = threading.Lock()

    def take(self, member: int, records: Iterable[Record]) -> None:
        """Take records of one member."""
        with self._lock:
            for partition, offset, key, value in records:
                expected = self._next_offsets.get(partition, 0)
                if offset < expected:
                    self.repeated += 1
                    continue
                if offset > expected:
                    raise OffsetGap(f"partition {partition}: offset {offset} came, {expected} was next")
                self._next_offsets[partition] = offset + 1
                self.content.add(key, value)
                self.members[member] = self.members.get(member, 0) + 1

    @property
    def records(self) -> int:
        """How many different records came."""
        return self.content.records
