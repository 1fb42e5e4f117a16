"""Kafka's small text files, which a crash must not damage.

| file | content |
|---|---|
| {recovery-point,replication,log-start,cleaner}-offset-checkpoint | `0`, count, `topic partition offset` |
| leader-epoch-checkpoint | `0`, count, then `epoch start-offset` per line |
| partition.metadata | `version: 0`, `topic_id: <22 base64 characters>` (no newline at the end) |
| .kafka_cleanshutdown | `{"version":0,"brokerEpoch":N}` |

All are written by `write_atomically`: after a crash they have the old or the new content (KAFKA-16541).
Errors: CorruptCheckpoint names file and line of a damage. An empty offset or epoch checkpoint is
not damage: Kafka creates them empty.
Source: org.apache.kafka.server.common.CheckpointFile, org.apache.kafka.storage.internals.checkpoint.*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition, uuid_from_text, uuid_text
from tidelog.protocol.schema import ZERO_UUID
from tidelog.storage.disk.errors import CorruptCheckpoint
from tidelog.storage.disk.files import FileSystem, write_atomically
from tidelog.storage.leader_epoch import EpochEntry

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION: Final = 0
_WHITE_SPACE: Final = re.compile(r"[ \t\x0b\f\r]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT32: Final = 2**31
_INT64: Final = 2**63


class OffsetCheckpoint:
    """One offset per partition of a log directory, in the file `path`."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def read(self) -> dict[TopicPartition, Offset]:
        """Return the offsets in the file; none if it is missing or empty."""
        offsets: dict[TopicPartition, Offset] = {}
        if not self._fs.exists(self.path):
            return offsets
        for number, words in _decode_table(self._fs.read(self.path), self.path, columns=3):
            partition = _integer(self.path, number, words[1], _INT32)
            offsets[TopicPartition(words[0], partition)] = _integer(self.path, number, words[2], _INT64)
        return offsets

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the file, durably."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        write_atomically(self._fs, self.path, _encode_table(lines))


class LeaderEpochCheckpoint:
    """The leader epochs of one partition, in the file `path`."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def read(self) -> list[EpochEntry]:
        """Return the entries in the file; none if it is missing or empty."""
        if not self._fs.exists(self.path):
            return []
        return decode_leader_epochs(self._fs.read(self.path), self.path)

    def write(self, entries: Iterable[EpochEntry]) -> None:
        """Replace the file, durably."""
        write_atomically(self._fs, self.path, encode_leader_epochs(entries))


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Return the content of a leader-epoch-checkpoint; it is also copied to remote storage with a segment."""
    return _encode_table([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def decode_leader_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """Return the entries in `data`; raise CorruptCheckpoint, which names `path`, for damaged bytes."""
    entries: list[EpochEntry] = []
    for number, words in _decode_table(data, path, columns=2):
        epoch: LeaderEpoch = _integer(path, number, words[0], _INT32)
        start_offset: Offset = _integer(path, number, words[1], _INT64)
        if epoch < 0 or start_offset < 0:
            raise CorruptCheckpoint(path, number, f"{' '.join(words)!r} has a negative number")
        entries.append(EpochEntry(epoch, start_offset))
    return entries


class PartitionMetadataFile:
    """The topic id of a partition directory, in its file `partition.metadata`."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.path = f"{directory}/{PARTITION_METADATA}"

    def exists(self) -> bool:
        """Return whether the file exists; older directories have none."""
        return self._fs.exists(self.path)

    def read(self) -> UUID:
        """Return the topic id. Errors: FileNotFoundError, CorruptCheckpoint."""
        lines = _lines(self._fs.read(self.path), self.path)
        version = _integer(self.path, 1, self._value(lines, 1), _INT32)
        if version < _VERSION:
            raise CorruptCheckpoint(self.path, 1, f"version {version} is unknown")
        text = self._value(lines, 2)
        try:
            topic_id = uuid_from_text(text)
        except ValueError as error:
            raise CorruptCheckpoint(self.path, 2, str(error)) from error
        if topic_id == ZERO_UUID:
            raise CorruptCheckpoint(self.path, 2, f"topic id {text} is the zero id")
        return topic_id

    def write(self, topic_id: UUID) -> None:
        """Replace the file, durably."""
        write_atomically(self._fs, self.path, self._text(topic_id))

    def create(self, topic_id: UUID) -> None:
        """Write the file of a new directory; the caller must sync it and its directory."""
        file = self._fs.open(self.path, create=True)
        try:
            file.truncate(0)
            file.append(self._text(topic_id))
        finally:
            file.close()

    def _text(self, topic_id: UUID) -> bytes:
        assert topic_id != ZERO_UUID, "a partition directory needs a real topic id"
        return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()

    def _value(self, lines: list[str], number: int) -> str:
        if len(lines) < number:
            raise CorruptCheckpoint(self.path, number, "it is missing")
        words = _WHITE_SPACE.split(lines[number - 1])
        if len(words) != 2:
            raise CorruptCheckpoint(self.path, number, f"{lines[number - 1]!r} is not a name and a value")
        return words[1]


class CleanShutdownMarker:
    """The file that exists after a clean shutdown of a log directory; its logs need no recovery then."""

    def __init__(self, fs: FileSystem, log_dir: str) -> None:
        self._fs = fs
        self.path = f"{log_dir}/{CLEAN_SHUTDOWN}"

    def exists(self) -> bool:
        """Return whether the last shutdown was clean."""
        return self._fs.exists(self.path)

    def write(self, broker_epoch: int) -> None:
        """Write the marker, durably, as the last operation of a shutdown."""
        text = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_atomically(self._fs, self.path, text.encode())

    def read(self) -> int | None:
        """Return the broker epoch of the shutdown; None if the file is missing or empty (older brokers)."""
        if not self._fs.exists(self.path):
            return None
        try:
            content = json.loads(self._fs.read(self.path))
        except ValueError:
            return None
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None

    def delete(self) -> None:
        """Remove the marker, durably, as the first operation of a start after reading it."""
        if self._fs.exists(self.path):
            self._fs.unlink(self.path)
            self._fs.fsync_dir(self.path.rpartition("/")[0])


def _encode_table(lines: list[str]) -> bytes:
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _decode_table(data: bytes, path: str, *, columns: int) -> list[tuple[int, list[str]]]:
    """Return the rows after version and count, each with its line number."""
    lines = _lines(data, path)
    if not lines:
        return []
    version = _integer(path, 1, lines[0], _INT32)
    if version != _VERSION:
        raise CorruptCheckpoint(path, 1, f"version {version} is unknown, expected {_VERSION}")
    if len(lines) < 2:
        raise CorruptCheckpoint(path, 2, "the number of entries is missing")
    expected = _integer(path, 2, lines[1], _INT32)
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines[2:], start=3):
        words = _WHITE_SPACE.split(line)
        if len(words) != columns or not all(words):
            raise CorruptCheckpoint(path, number, f"{line!r} does not have {columns} words")
        rows.append((number, words))
    if len(rows) != expected:
        raise CorruptCheckpoint(path, 2, f"it announces {expected} entries, the file has {len(rows)}")
    return rows


def _lines(data: bytes, path: str) -> list[str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptCheckpoint(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8") from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _integer(path: str, line: int, text: str, bound: int) -> int:
    if not _INTEGER.fullmatch(text) or not -bound <= (number := int(text)) < bound:
        raise CorruptCheckpoint(path, line, f"{text!r} is not an integer of {bound.bit_length()} bits")
    return number
