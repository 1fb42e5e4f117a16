"""What a read of the log returns: whole batches, still in their file."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.storage.disk.files import File


@dataclass(slots=True)
class FileSlice:
    """`length` bytes from `position` of a segment file, which the network may send with sendfile.

    The bytes never change, and stay readable while this object lives, even when the segment is
    deleted meanwhile: it holds the open file, and an unlinked file lives as long as it is open.
    """

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        """The bytes themselves. I/O: one pread."""
        return self.file.pread(self.length, self.position)
