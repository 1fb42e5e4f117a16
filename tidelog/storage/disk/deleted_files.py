"""Renamed files and directories that are removed later, when no reader uses them any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidelog.storage.disk.files import FileSystem


class DeletedFiles:
    """A queue of files and directories, each with the time in ms from which it may be removed.

    Bounds: as many as retention deletes within file.delete.delay.ms.
    """

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: deque[tuple[int, str]] = deque()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Iterable[str], due_ms: int) -> None:
        """Remove `paths` from `due_ms` on, and not before those that were added earlier."""
        if self._due:
            due_ms = max(due_ms, self._due[-1][0])
        self._due.extend((due_ms, path) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """Return the expired paths in order, and remove them from the queue."""
        paths: list[str] = []
        while self._due and self._due[0][0] <= now_ms:
            paths.append(self._due.popleft()[1])
        return paths

    def remove_due(self, fs: FileSystem, now_ms: int) -> int:
        """Unlink the expired files and return their number; missing ones are ignored."""
        count = 0
        while self._due and self._due[0][0] <= now_ms:
            count += _remove_path(fs, self._due[0][1])
            self._due.popleft()
        return count


def remove_paths(fs: FileSystem, paths: Iterable[str]) -> int:
    """Remove files and directories; return how many existed. I/O: long for large files."""
    return sum(_remove_path(fs, path) for path in paths)


def _remove_path(fs: FileSystem, path: str) -> bool:
    """Remove a file, or a directory with its contents; return False if it does not exist."""
    if not fs.exists(path):
        return False
    try:
        if fs.is_dir(path):
            fs.rmtree(path)
        else:
            fs.unlink(path)
    except FileNotFoundError:  # its partition was deleted at this moment, which renames the directory
        return False
    return True
