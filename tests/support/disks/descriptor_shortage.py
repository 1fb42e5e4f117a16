"""A disk in memory whose process runs out of descriptors at a given operation.

All operations that need a descriptor on a real system are counted: opening or reading a file, and listing,
removing or syncing a directory. `fails_times` of them raise EMFILE, from number `fails_at` on.
"""

from __future__ import annotations

import errno

from tidelog.storage.disk.files import File
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


class DescriptorLimitedFileSystem(CrashFileSystem):
    """Raises EMFILE for some uses of descriptors; `uses` lists all uses."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse_uses(0, 0)

    def refuse_uses(self, fails_at: int, fails_times: int) -> None:
        """Restart counting, and refuse `fails_times` uses from number `fails_at` on."""
        self.uses: list[str] = []
        self.fails_at = fails_at
        self.fails_times = fails_times

    def _use(self, operation: str, path: str) -> None:
        self.uses.append(f"{operation} {path}")
        if self.fails_at <= len(self.uses) < self.fails_at + self.fails_times:
            raise OSError(errno.EMFILE, "Too many open files", path)

    def open(self, path: str, *, create: bool) -> File:
        self._use("open", path)
        return super().open(path, create=create)

    def read(self, path: str) -> bytes:
        self._use("read", path)
        return super().read(path)

    def listdir(self, path: str) -> list[str]:
        self._use("listdir", path)
        return super().listdir(path)

    def rmtree(self, path: str) -> None:
        self._use("rmtree", path)
        super().rmtree(path)

    def fsync_dir(self, path: str) -> None:
        self._use("fsync_dir", path)
        super().fsync_dir(path)
