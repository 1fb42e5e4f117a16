"""Fingerprints of records: their count, the order of each key's values, and every byte.

A SHA-256 digest for each key depends on the order of its values. The digest of all these digests, sorted by
key, does not depend on the order between partitions.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterable

from tidelog.base.dataclass import dataclass

# Partition, offset, key, value.
Record = tuple[int, int, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Equal fingerprints mean the same records, in the same order for each key.

    `crc_sum` is the sum of the CRC-32 of each record's key and value; it does not depend on the order.
    """

    records: int
    size_bytes: int
    keys: int
    sha256: str
    crc_sum: int


class Content:
    """Builds the fingerprint of records."""

    def __init__(self) -> None:
        self._records = 0
        self._size_bytes = 0
        self._crc_sum = 0
        self._by_key: dict[bytes, hashlib._Hash] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add one record; records of a partition are added in order."""
        name, data = key or b"", value or b""
        digest = self._by_key.get(name)
        if digest is None:
            digest = self._by_key[name] = hashlib.sha256()
        # With the length, so that two records differ from one record with the bytes of both.
        digest.update(b"%d:" % len(data))
        digest.update(data)
        self._records += 1
        self._size_bytes += len(name) + len(data)
        self._crc_sum += zlib.crc32(data, zlib.crc32(name))

    @property
    def records(self) -> int:
        """The number of added records."""
        return self._records

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the added records."""
        whole = hashlib.sha256()
        for key in sorted(self._by_key):
            whole.update(b"%d:" % len(key) + key + self._by_key[key].digest())
        return Fingerprint(
            self._records, self._size_bytes, len(self._by_key), whole.hexdigest(), self._crc_sum
        )


class OffsetGap(Exception):
    """The offsets of a partition have a gap: records are missing."""


class Received:
    """The records that all members of one group have received; safe for members in threads.

    Records that are repeated after a rebalance are skipped. Missing records raise OffsetGap: every partition
    must have the offsets 0, 1, 2 ... in this order.
    """

    def __init__(self) -> None:
        self.content = Content()
        self.members: dict[int, int] = {}
        self._next_offsets: dict[int, int] = {}
        self._lock = threading.Lock()

    def take(self, member: int, records: Iterable[Record]) -> None:
        """Add records that one member has received."""
        with self._lock:
            for partition, offset, key, value in records:
                expected = self._next_offsets.get(partition, 0)
                if offset < expected:
                    continue
                if offset > expected:
                    raise OffsetGap(f"partition {partition}: received offset {offset}, expected {expected}")
                self._next_offsets[partition] = offset + 1
                self.content.add(key, value)
                self.members[member] = self.members.get(member, 0) + 1

    @property
    def records(self) -> int:
        """The number of different records."""
        return self.content.records
