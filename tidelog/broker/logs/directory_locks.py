"""Locks that allow one broker per log directory: the `.lock` file in each, held while the node runs.

Source: kafka.log.LogManager.lockLogDirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.storage.disk.files import FileLock, FileSystem

LOCK_FILE: Final = ".lock"


class DirectoryLocks:
    """The locks of all online log directories."""

    def __init__(self, fs: FileSystem, directories: Iterable[str]) -> None:
        """Take all locks, or none. Raise ConfigError if another process has one, OSError if one fails."""
        self._locks: list[FileLock] = []
        for path in directories:
            try:
                self._locks.append(fs.lock(f"{path}/{LOCK_FILE}"))
            except OSError as error:
                self.release()
                if isinstance(error, BlockingIOError):
                    raise ConfigError("log.dirs", path, "another broker is running on it") from None
                raise

    def release(self) -> None:
        """Release all locks."""
        for lock in self._locks:
            lock.release()
        self._locks.clear()
