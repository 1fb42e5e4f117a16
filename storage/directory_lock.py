"""The lock that keeps a second process out of a log directory: the file `.lock`, as Kafka locks it.

A lock of the operating system, so that it goes with the process however that ends. It keeps out other
processes, of Tidelog or of Apache Kafka, not a second node in the same process.
I/O: one open file while it is held. Source: org.apache.kafka.server.util.FileLock (a POSIX record lock).
"""

from __future__ import annotations

import fcntl
import os
from typing import Final

from protocol.errors import ErrorCode, KafkaError

LOCK_FILE: Final = ".lock"


class DirectoryLock:
    """Holds a log directory of the operating system's file system from `acquire` to `release`."""

    def __init__(self, log_dir: str) -> None:
        self.path = f"{log_dir}/{LOCK_FILE}"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the directory, made when missing.

        Errors: KafkaError KAFKA_STORAGE_ERROR when another process has it; OSError.
        """
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            text = f"{os.path.dirname(self.path)} is in use by another process, which holds {self.path}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Let another process have it; doing so twice is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
