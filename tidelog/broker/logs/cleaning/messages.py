"""The messages between a node and its cleaner workers, and their form in a pipe.

A message is a JSON array of its kind and its values, after its length in four bytes. A list of values that
grows with the log is sent in messages of LIST_ENTRIES_MAX entries, so that encoding never holds the
interpreter for long.

| kind | from | values |
|---|---|---|
| round | node | a new round: the task without its lists, and the limits |
| sources, aborted, last_records | node | entries of the lists of the task |
| fill | node | fill the offset map |
| filled | worker | the end offset of the round, and the utilization of the map |
| clean | node | write a cleaned segment from the sources with these numbers (the end is exclusive) |
| cleaned | worker | the bytes read and the bytes written; all segments before this one are durable |
| sync | node | make the last segment durable |
| synced | worker | |
| end | node | the round has ended; release its memory |
| failed | worker | the error that ended the round |
"""

from __future__ import annotations

import dataclasses
import errno
import json
import struct
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.storage.compaction.last_records import LastRecord
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.errors import CorruptFile, StorageFailure
from tidelog.storage.segment.txn_index import AbortedTransaction

Message: TypeAlias = list[Any]
"""The kind, and the values."""

LIST_ENTRIES_MAX: Final = 1000
MESSAGE_BYTES_MAX: Final = 1 << 20
_LENGTH: Final = struct.Struct(">I")
_LISTS: Final = ("sources", "aborted", "last_records")


class WorkerError(Exception):
    """An unexpected error in a worker: a fault of ours. Its text is the traceback there."""


class WorkerOutOfMemory(Exception):
    """A worker had too little memory for its round."""


@dataclass(frozen=True, slots=True)
class CleaningLimits:
    """The limits of one cleaner: its shares of the memory and of the rate."""

    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    bytes_per_second: float


# -- pipes


def send(pipe: IO[bytes], message: Message) -> None:
    """Write one message. Errors: OSError if the peer has closed the pipe."""
    data = json.dumps(message, separators=(",", ":")).encode()
    assert len(data) <= MESSAGE_BYTES_MAX, f"a message {message[0]} of {len(data)} bytes"
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Message | None:
    """Read one message; None if the peer has closed the pipe."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    assert length <= MESSAGE_BYTES_MAX, f"a message of {length} bytes"
    data = pipe.read(length)
    return None if len(data) < length else json.loads(data)


# -- the task of a round


def round_messages(task: CleaningTask, limits: CleaningLimits) -> Iterator[Message]:
    """Yield the messages that describe a round."""
    config = {field.name: getattr(task.config, field.name) for field in dataclasses.fields(task.config)}
    yield [
        "round",
        {
            "directory": task.directory,
            "config": config,
            "first_dirty_offset": task.first_dirty_offset,
            "end_offset": task.end_offset,
            "now_ms": task.now_ms,
            "io_buffer_bytes": task.io_buffer_bytes,
        },
        dataclasses.asdict(limits),
    ]
    last_records = [(producer_id, *record) for producer_id, record in task.last_records.items()]
    for kind, entries in zip(_LISTS, (task.sources, task.aborted, last_records), strict=True):
        for start in range(0, len(entries), LIST_ENTRIES_MAX):
            yield [kind, entries[start : start + LIST_ENTRIES_MAX]]


class ReceivedTask:
    """Collects the messages that describe a round."""

    def __init__(self, fields: dict[str, Any], limits: dict[str, Any]) -> None:
        self._fields = fields
        self._lists: dict[str, list[Sequence[Any]]] = {kind: [] for kind in _LISTS}
        self.limits = CleaningLimits(**limits)

    def add(self, kind: str, entries: list[Sequence[Any]]) -> None:
        """Add entries of one of the lists."""
        self._lists[kind] += entries

    def task(self) -> CleaningTask:
        """Return the complete task."""
        config: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self._fields["config"].items()
        }
        return CleaningTask(
            **self._fields | {"config": LogConfig(**config)},
            sources=[SourceSegment(*entry) for entry in self._lists["sources"]],
            aborted=[AbortedTransaction(*entry) for entry in self._lists["aborted"]],
            last_records={entry[0]: LastRecord(*entry[1:]) for entry in self._lists["last_records"]},
        )


# -- errors


def failed_message(error: Exception, traceback: str) -> Message:
    """Return the message about an error in the worker."""
    match error:
        case CorruptFile():
            return ["failed", "corrupt", error.path, error.reason]
        case DecodeError():
            return ["failed", "undecodable", str(error)]
        case StorageFailure():
            return ["failed", "storage", error.path, error.operation, error.reason]
        case MemoryError() | OSError(errno=errno.ENOMEM):
            return ["failed", "memory", str(error)]
        case OSError():
            return ["failed", "system", error.errno, error.strerror or str(error), error.filename]
        case _:
            return ["failed", "unexpected", traceback[-MESSAGE_BYTES_MAX // 8 :]]


def error_of(message: Message) -> Exception:
    """Return the error that `message` is about."""
    _, kind, *values = message
    match kind:
        case "corrupt":
            return CorruptFile(*values)
        case "undecodable":
            return DecodeError(*values)
        case "storage":
            return StorageFailure(*values)
        case "memory":
            return WorkerOutOfMemory(*values)
        case "system":
            return OSError(*values)
        case _:
            return WorkerError(*values)
