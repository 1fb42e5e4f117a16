"""The errors of a disk and of the files on it; each error names the file.

`CorruptFile` and its subclasses mean that Tidelog or Kafka did not write these bytes: the caller
rebuilds, truncates or reports. `StorageFailure` means that the disk itself failed.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from tidelog.protocol.errors import ErrorCode, KafkaError

_SHORTAGE: Final = frozenset({errno.EMFILE, errno.ENFILE})


def is_descriptor_shortage(error: BaseException | None) -> bool:
    """Return whether a file could not be opened because the process or the machine has too many open files.

    The disk has not failed: nothing was read or written, and the same operation may succeed later.
    """
    while error is not None:
        if isinstance(error, StorageFailure):
            return isinstance(error, InterruptedChange)
        if isinstance(error, OSError):
            return error.errno in _SHORTAGE
        error = error.__cause__
    return False


class StorageFailure(KafkaError):
    """A failure of the disk after which the file's content is unknown; it is never retried.

    Errors: the log directory that holds `path` must be taken offline (Kafka: offline log dir). A client
    that waits for the operation gets KAFKA_STORAGE_ERROR.
    Source: Rebello et al., "Can applications recover from fsync failures?", ATC 2020.
    """

    def __init__(self, path: str, operation: str, reason: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{operation} of {path} failed: {reason}")
        self.path = path
        self.operation = operation
        self.reason = reason


class InterruptedChange(StorageFailure):
    """A change of several steps is incomplete, because no descriptor was available for one of them.

    The log refuses reads and writes until the other steps are executed; its log directory stays online.
    """


class InvalidRecords(KafkaError):
    """Records that may not be appended; INVALID_RECORD or INVALID_TIMESTAMP.

    `record_errors` has the index of each in the batch and the reason (KIP-467).
    """

    def __init__(self, code: ErrorCode, text: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, text)
        self.record_errors = record_errors


class CorruptFile(Exception):
    """A file's content contradicts its format; `path` is the file, `reason` names the invalid value."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CorruptIndex(CorruptFile):
    """An offset, time or transaction index that must be rebuilt from its segment."""


class CorruptSnapshot(CorruptFile):
    """A producer snapshot that must be deleted; the state is rebuilt from the log."""


class CorruptCheckpoint(CorruptFile):
    """A checkpoint or properties file with a bad line; `line` counts from 1 (0: the file as a whole)."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(path, f"line {line}: {reason}" if line else reason)
