"""What was renamed out of use and waits until readers that still use it are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidelog.storage.disk.files import FileSystem


class DeletedFiles:
    """A queue of files and directories with the time in ms from which each may be removed; times never fall.

    Bounds: as many as retention deletes within file.delete.delay.ms.
    """

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: deque[tuple[int, str]] = deque()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Iterable[str], due_ms: int) -> None:
        """Remove `paths` when it is `due_ms`, and not before those that were added earlier."""
        if self._due:
            due_ms = max(due_ms, self._due[-1][0])
        self._due.extend((due_ms, path) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """What is due, in order; it is not waited for any more."""
        paths: list[str] = []
        while self._due and self._due[0][0] <= now_ms:
            paths.append(self._due.popleft()[1])
        return paths

    def remove_due(self, fs: FileSystem, now_ms: int) -> int:
        """Remove what is due, and say how many that were. What is gone already is passed over."""
        count = 0
        while self._due and self._due[0][0] <= now_ms:
            count += remove_path(fs, self._due[0][1])
            self._due.popleft()
        return count


def remove_path(fs: FileSystem, path: str) -> bool:
    """Remove a file, or a directory with all that is in it; False when it is gone already."""
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
