"""Fixed-size index entries: in memory while their segment grows, in a file after it is sealed.

The index of a sealed segment has no entries in memory: a search takes a dozen preads. `load`, or the first
new entry, reads the entries into a bytearray, which exists until `unload`. Meanwhile only `write` changes the
file, and nothing is read from it. A crash before `write` loses entries that
recovery restores from the segment.
"""

from __future__ import annotations

import struct
from typing import Final

from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.files import File

_BLOCK_BYTES: Final = 4096


class EntryFile:
    """An array of `entry_size`-byte entries, which is extended and truncated at its end.

    Invariant: the first `count` entries are the array. The file begins with the first `_written` of them;
    anything after them (an incomplete entry, zeros that Kafka preallocates, truncated entries) is removed
    by the next `write`.
    Bounds: `max_bytes` rounded down to whole entries, enforced by the owner through `max_count`.
    """

    __slots__ = ("_entries", "_written", "count", "entry_size", "file", "max_count")

    def __init__(self, file: File, entry_size: int, max_bytes: int) -> None:
        self.file = file
        self.entry_size = entry_size
        self.max_count = max_bytes // entry_size
        self._entries: bytearray | None = None
        self.count = file.size() // entry_size
        self.count = self._written = self._count_without_zero_tail()

    def entry(self, slot: int) -> bytes | bytearray:
        """Return the bytes of one entry; `slot` counts from 0."""
        start = slot * self.entry_size
        if self._entries is not None:
            return self._entries[start : start + self.entry_size]
        return self._read(start, self.entry_size)

    def block(self, slot: int, count: int) -> bytes | bytearray:
        """Return the bytes of `count` entries from `slot` on."""
        start, length = slot * self.entry_size, count * self.entry_size
        if self._entries is not None:
            return self._entries[start : start + length]
        return self._read(start, length)

    def collect(self, entry: bytes) -> None:
        """Add one entry in memory; the next `write` adds it to the file."""
        if self._entries is None:
            self.load()
        assert self._entries is not None
        self._entries += entry
        self.count += 1

    def write(self) -> None:
        """Write all changes to the file. Errors: OSError; a later call then writes the missing entries."""
        entries = self._entries
        if entries is None:
            return
        written_bytes = self._written * self.entry_size
        self.file.truncate(written_bytes)
        if self._written < self.count:
            self.file.append(entries[written_bytes:])
            self._written = self.count

    def replace_file(self, file: File) -> None:
        """Use another file, which is empty; the next `write` adds all entries, which must be in memory."""
        assert self._entries is not None, f"the entries of {self.file.path} are not in memory"
        self.file = file
        self._written = 0

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries. I/O: reads them if they are not in memory; writes nothing."""
        if count == 0:
            self._entries = bytearray()
        elif count < self.count:
            self.load()
            assert self._entries is not None
            del self._entries[count * self.entry_size :]
        self.count = min(self.count, count)
        self._written = min(self._written, count)

    def first_slot_above(self, field: struct.Struct, field_at: int, value: int) -> int:
        """Return the first slot whose field is above `value`; `count` if none is.

        `field` is an integer that starts `field_at` bytes after the start of its entry. The entries must be
        sorted by it.
        """
        low, high, size = 0, self.count, self.entry_size
        block_count = _BLOCK_BYTES // size
        entries = self._entries
        while low < high:
            if entries is None and high - low <= block_count:
                return self._search_block(low, high, field, field_at, value)
            middle = (low + high) // 2
            entry_at = middle * size
            (found,) = (
                field.unpack_from(self._read(entry_at, size), field_at)
                if entries is None
                else field.unpack_from(entries, entry_at + field_at)
            )
            if found > value:
                high = middle
            else:
                low = middle + 1
        return low

    def load(self) -> None:
        """Read the entries into memory."""
        if self._entries is None:
            self._entries = bytearray(self._read(0, self.count * self.entry_size) if self.count else b"")

    def unload(self) -> None:
        """Write all changes and release the memory; searches read the file from now on."""
        self.write()
        self._entries = None

    def require_whole_entries(self) -> None:
        """Raise CorruptIndex if the file ends inside an entry."""
        size = self.file.size()
        if size % self.entry_size:
            raise CorruptIndex(
                self.file.path, f"its {size} bytes are not a multiple of the entry size {self.entry_size}"
            )

    def _search_block(self, low: int, high: int, field: struct.Struct, field_at: int, value: int) -> int:
        first, size = low, self.entry_size
        block = self._read(low * size, (high - low) * size)
        while low < high:
            middle = (low + high) // 2
            if field.unpack_from(block, (middle - first) * size + field_at)[0] > value:
                high = middle
            else:
                low = middle + 1
        return low

    def _count_without_zero_tail(self) -> int:
        """Return the number of entries before the zeros that a Kafka broker leaves after a crash."""
        zero = bytes(self.entry_size)
        if self.count < 2 or self.entry(self.count - 1) != zero:
            return self.count
        low, high = 1, self.count - 1
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle) == zero:
                high = middle
            else:
                low = middle + 1
        return 0 if low == 1 and self.entry(0) == zero else low

    def _read(self, position: int, length: int) -> bytes:
        data = self.file.pread(length, position)
        if len(data) != length:
            raise CorruptIndex(self.file.path, f"read {len(data)} of {length} bytes at {position}")
        return data
