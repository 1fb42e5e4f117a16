"""One broker per log directory: the `.lock` file in each, held for as long as the node runs.

Source: kafka.log.LogManager.lockLogDirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.storage.disk.files import FileLock, FileSystem

LOCK_FILE: Final = ".lock"


class DirectoryLocks:
    """The locks of all usable log directories."""

    def __init__(self, fs: FileSystem, directories: Iterable[str]) -> None:
        """Take them all; ConfigError when another process has one."""
        self._locks: list[FileLock] = []
        for path in directories:
            try:
                self._locks.append(fs.lock(f"{path}/{LOCK_FILE}"))
            except BlockingIOError:
                self.release()
                raise ConfigError("log.dirs", path, "another broker is running on it") from None

    def release(self) -> None:
        """Let another broker have the directories."""
        for lock in self._locks:
            lock.release()
        self._locks.clear()
