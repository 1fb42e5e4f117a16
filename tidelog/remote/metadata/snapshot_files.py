"""The files in which a node stores remote metadata, so that a restart does not read all of it again.

    <log directory>/remote-log-metadata/_rlmm_committed_offsets            `partition offset` per line
    <log directory>/remote-log-metadata/partition-deletions         deletions of partitions in progress
    <log directory>/remote-log-metadata/<topic id>-<partition>/remote_log_snapshot
    <log directory>/remote-log-metadata/<topic id>-<partition>/leader-epoch-highest-offsets

Invariant, on disk at any time: a snapshot includes all records of its partition before the larger of its own
offset and the committed offset of its metadata partition. Therefore `write` first removes snapshots of
partitions that are no longer followed, and commits last. The highest offsets, `epoch offset` per line, may be
ahead of the snapshot, never behind it; so may the deletions, each an int32 length and its record. A damaged
file is ignored: then the topic is read from its start.

I/O: blocks; one call at a time, in a thread. Errors: OSError, StorageFailure.
Source: FileBasedRemoteLogMetadataCache and CommittedOffsetsFile of Apache Kafka 3.7 for the formats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.base.threads import SYSTEM_THREADS, Threads
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import LeaderEpoch, Offset, uuid_text
from tidelog.remote.metadata.cache import RemoteLogMetadataCache
from tidelog.remote.metadata.record_codec import decode_event, encode_event
from tidelog.remote.metadata.snapshot import (
    SNAPSHOT_FILE,
    PartitionSnapshot,
    Segments,
    decode_snapshot,
    encode_snapshot,
)
from tidelog.remote.ports.segment_metadata import (
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from tidelog.storage.disk.files import FileSystem, write_atomically

DIRECTORY: Final = "remote-log-metadata"
DELETIONS_FILE: Final = "partition-deletions"
COMMITTED_OFFSETS_FILE: Final = "_rlmm_committed_offsets"
HIGHEST_OFFSETS_FILE: Final = "leader-epoch-highest-offsets"

_log = logging.getLogger(__name__)


class PlannedSnapshot(NamedTuple):
    """One partition's state at the time of the plan; it does not include the record at `next_offset`."""

    partition: TopicIdPartition
    metadata_partition: int
    next_offset: Offset
    segments: Segments
    highest_offsets: list[tuple[LeaderEpoch, Offset]]


class LoadedSnapshot(NamedTuple):
    """The content of a snapshot: all records before `next_offset`."""

    next_offset: Offset
    cache: RemoteLogMetadataCache


class SnapshotFiles:
    """The files below one log directory; `writers` snapshots are written at a time.

    A disk syncs many files in parallel almost as fast as a few, and a node that stops has only seconds to
    write hundreds of snapshots.
    """

    def __init__(
        self, fs: FileSystem, log_directory: str, *, writers: int = 1, threads: Threads = SYSTEM_THREADS
    ) -> None:
        self._fs = fs
        self._writers = writers
        self._threads = threads
        self._log_directory = log_directory
        self._path = f"{log_directory}/{DIRECTORY}"
        self._committed: dict[int, Offset] | None = None
        self._deletions: list[RemotePartitionDeleteMetadata] | None = None
        self._is_damaged = False

    def deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """Return the deletions of partitions that have started and not finished."""
        if self._deletions is None:
            try:
                self._deletions = _read_deletions(self._fs.read(f"{self._path}/{DELETIONS_FILE}"))
            except FileNotFoundError:
                self._deletions = []
            except DecodeError as error:
                _log.warning(
                    "Reading all remote log metadata from its start: %s/%s is damaged: %s",
                    self._path,
                    DELETIONS_FILE,
                    error,
                )
                self._deletions = []
                self._is_damaged = True
        return self._deletions

    def load(self, partition: TopicIdPartition, metadata_partition: int) -> LoadedSnapshot | None:
        """Return the snapshot of `partition`; None if there is no valid one."""
        directory = self._directory_of(partition)
        self.deletions()
        if self._is_damaged:
            return None
        try:
            data = self._fs.read(f"{directory}/{SNAPSHOT_FILE}")
            highest = _read_table(self._fs.read(f"{directory}/{HIGHEST_OFFSETS_FILE}"))
            snapshot: PartitionSnapshot = decode_snapshot(data, partition)
            if snapshot.metadata_partition != metadata_partition:
                raise DecodeError(
                    f"its metadata partition is {snapshot.metadata_partition}, expected {metadata_partition}"
                )
        except FileNotFoundError:
            return None
        except DecodeError as error:
            _log.warning(
                "Reading the metadata of %s from its start: its snapshot in %s is damaged: %s",
                partition,
                directory,
                error,
            )
            return None
        committed = self._read_committed().get(metadata_partition, 0)
        snapshot.cache.restore_highest_offsets(highest.items())
        return LoadedSnapshot(max(snapshot.metadata_offset + 1, committed), snapshot.cache)

    def write(
        self,
        followed: Iterable[TopicIdPartition],
        snapshots: Iterable[PlannedSnapshot],
        committed: Mapping[int, Offset],
        deletions: list[RemotePartitionDeleteMetadata] | None = None,
    ) -> None:
        """Write `snapshots`, the offsets `committed` and the `deletions` in progress.

        Every other snapshot of `followed` includes all records before `committed`. Snapshots of all other
        partitions are removed.
        """
        self._read_committed()
        self._fs.makedirs(self._path)
        self._remove_others({_name_of(partition) for partition in followed})
        self.write_deletions(deletions or [])
        with self._threads.executor(self._writers, "metadata-snapshots") as pool:
            written = [pool.submit(self._write_one, snapshot) for snapshot in snapshots]
        for each in written:
            each.result()
        self._fs.fsync_dir(self._path)
        if committed != self._committed:
            write_atomically(
                self._fs, f"{self._path}/{COMMITTED_OFFSETS_FILE}", _table(sorted(committed.items()))
            )
            self._committed = dict(committed)

    def write_deletions(self, deletions: list[RemotePartitionDeleteMetadata]) -> None:
        """Write the deletions in progress if they have changed."""
        if deletions == self.deletions() and not self._is_damaged:
            return
        self._fs.makedirs(self._path)
        self._fs.fsync_dir(self._log_directory)
        write_atomically(self._fs, f"{self._path}/{DELETIONS_FILE}", _deletions_text(deletions))
        self._deletions = list(deletions)

    def _write_one(self, planned: PlannedSnapshot) -> None:
        directory = self._directory_of(planned.partition)
        self._fs.makedirs(directory)
        write_atomically(self._fs, f"{directory}/{HIGHEST_OFFSETS_FILE}", _table(planned.highest_offsets))
        data = encode_snapshot(planned.segments, planned.metadata_partition, planned.next_offset - 1)
        write_atomically(self._fs, f"{directory}/{SNAPSHOT_FILE}", data)

    def _remove_others(self, names: set[str]) -> None:
        paths = [
            path
            for name in self._fs.listdir(self._path)
            if name not in names and self._fs.is_dir(path := f"{self._path}/{name}")
        ]
        for path in paths:
            snapshot = f"{path}/{SNAPSHOT_FILE}"
            if self._fs.exists(snapshot):
                self._fs.unlink(snapshot)
                self._fs.fsync_dir(path)
            self._fs.rmtree(path)
        if paths:
            self._fs.fsync_dir(self._path)

    def _read_committed(self) -> dict[int, Offset]:
        if self._committed is None:
            try:
                self._committed = _read_table(self._fs.read(f"{self._path}/{COMMITTED_OFFSETS_FILE}"))
            except FileNotFoundError:
                self._committed = {}
            except DecodeError as error:
                _log.warning("Ignoring damaged file %s/%s: %s", self._path, COMMITTED_OFFSETS_FILE, error)
                self._committed = {}
        return self._committed

    def _directory_of(self, partition: TopicIdPartition) -> str:
        return f"{self._path}/{_name_of(partition)}"


def _name_of(partition: TopicIdPartition) -> str:
    return f"{uuid_text(partition.topic_id)}-{partition.partition}"


def _table(rows: Iterable[tuple[int, int]]) -> bytes:
    lines = [f"{key} {value}" for key, value in rows]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _read_table(data: bytes) -> dict[int, int]:
    try:
        version, count, *lines = data.decode("ascii").split("\n")[:-1]
        rows = {int(key): int(value) for key, value in (line.split(" ") for line in lines)}
        if (int(version), int(count)) != (0, len(rows)) or any(
            number < 0 for row in rows.items() for number in row
        ):
            raise ValueError(f"version {version} with {count} entries contains {len(rows)} valid ones")
    except ValueError as error:
        raise DecodeError(f"invalid table: {error}") from None
    return rows


def _deletions_text(deletions: Iterable[RemotePartitionDeleteMetadata]) -> bytes:
    entries = map(encode_event, deletions)
    return b"".join(len(entry).to_bytes(4, "big") + entry for entry in entries)


def _read_deletions(data: bytes) -> list[RemotePartitionDeleteMetadata]:
    deletions: list[RemotePartitionDeleteMetadata] = []
    position = 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        event = decode_event(data[position + 4 : end])
        if end > len(data) or not isinstance(event, RemotePartitionDeleteMetadata):
            raise DecodeError(f"entry {len(deletions)} at byte {position} of {len(data)} is not a deletion")
        deletions.append(event)
        position = end
    return deletions
