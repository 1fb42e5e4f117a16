"""What every index of a segment does alike: entries of one size in a file, appended and cut at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.files import File
from tidelog.storage.segment.entry_file import EntryFile


class SegmentIndex(ABC):
    """An index of the segment that starts at `base_offset`.

    An index says in `_note_last` what it remembers of its last entry; it is called when that is another one.
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
        # Not worked out when it is asked for, as every append asks.
        self.is_full = self._entries.count >= self._full_count
        self._note_last()

    @property
    def file(self) -> File:
        """The file under the index."""
        return self._entries.file

    @property
    def entry_count(self) -> int:
        """How many entries the index holds."""
        return self._entries.count

    @property
    def size_bytes(self) -> int:
        """Bytes that the entries take."""
        return self._entries.count * self._entries.entry_size

    def truncate(self) -> None:
        """Remove every entry."""
        self._cut(0)

    def load(self) -> None:
        """Bring the entries into memory, as for an active segment; new ones and cuts need no I/O then."""
        self._entries.load()

    def unload(self) -> None:
        """Search on disk from now on, as for a sealed segment."""
        self._entries.unload()

    def write(self) -> None:
        """Bring the file up to date with the entries in memory."""
        self._entries.write()

    def flush(self) -> None:
        """Make the entries durable; StorageFailure when that fails."""
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
