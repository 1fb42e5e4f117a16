"""The common part of a segment's indexes: entries of one size in a file, which changes only at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.files import File
from tidelog.storage.segment.entry_file import EntryFile


class SegmentIndex(ABC):
    """An index of the segment that starts at `base_offset`.

    A subclass stores its last entry in `_note_last`, which is called after every change of it.
    `is_full`: only the `spare_entries` at the end are left, and the segment must roll.
    Errors: CorruptIndex from reading a file that shrank; StorageFailure from `flush`.
    """

    __slots__ = ("_entries", "_full_count", "base_offset", "is_full")

    def __init__(
        self, file: File, base_offset: Offset, entry_size: int, max_bytes: int, spare_entries: int = 0
    ) -> None:
        self.base_offset = base_offset
        self._entries = EntryFile(file, entry_size, max_bytes)
        self._full_count = self._entries.max_count - spare_entries
        # Stored, as every append reads it.
        self.is_full = self._entries.count >= self._full_count
        self._note_last()

    @property
    def file(self) -> File:
        """The file under the index."""
        return self._entries.file

    @property
    def entry_count(self) -> int:
        """The number of entries in the index."""
        return self._entries.count

    @property
    def size_bytes(self) -> int:
        """The size of all entries in bytes."""
        return self._entries.count * self._entries.entry_size

    def truncate(self) -> None:
        """Remove every entry."""
        self._cut(0)

    def load(self) -> None:
        """Read the entries into memory, for an active segment; then changes need no I/O."""
        self._entries.load()

    def replace_file(self, file: File) -> None:
        """Use another file, which is empty, for entries that are in memory."""
        self._entries.replace_file(file)

    def unload(self) -> None:
        """Write all changes and release the memory, for a sealed segment; searches read the file."""
        self._entries.unload()

    def write(self) -> None:
        """Write the entries in memory to the file."""
        self._entries.write()

    def flush(self) -> None:
        """Make the entries durable. Errors: OSError, StorageFailure."""
        self._entries.write()
        self.file.fsync()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _cut(self, count: int) -> None:
        self._entries.truncate(count)
        self.is_full = self._entries.count >= self._full_count
        self._note_last()

    def _collect(self, entry: bytes) -> None:
        self._entries.collect(entry)
        self.is_full = self._entries.count >= self._full_count

    @abstractmethod
    def _note_last(self) -> None: ...
