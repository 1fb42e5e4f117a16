"""The result of a read of the log: complete batches, which remain in their file."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.storage.disk.files import File


@dataclass(slots=True)
class FileSlice:
    """`length` bytes from `position` of a segment file, which the network may send with sendfile.

    The bytes never change, and stay readable while this object lives, even when the segment is deleted
    meanwhile: it holds the open file, and an unlinked file lives as long as it is open. A slice of a sealed
    segment that has to wait for a slow reader is released: it is opened again to be read, which is possible
    until its file is removed, file.delete.delay.ms after it was deleted.
    """

    file: File
    position: int
    length: int
    opened: File | None = None
    """An open file with the same content; None after it is released."""

    def hold(self) -> File:
        """Return the file to read from. Errors: OSError if it must be opened and cannot be."""
        return self.opened or self.file.hold()

    def release(self) -> None:
        """Release the descriptor while nothing is read, if the file can be opened again."""
        self.opened = None

    def read(self) -> bytes:
        """Return the bytes. I/O: one pread."""
        return (self.opened or self.file).pread(self.length, self.position)
