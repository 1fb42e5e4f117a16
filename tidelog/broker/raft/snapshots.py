"""The snapshots of the metadata log on disk: `<20-digit end offset>-<10-digit epoch>.checkpoint`.

A snapshot is written to a file with the suffix `.checkpoint.part`, which is synced and renamed. Then the
directory is synced. A file with the final name is therefore always complete. The next start deletes
incomplete files that remain after a crash.

I/O: synchronous; `write` may run in any thread, all other methods only in the thread that owns the log.
Errors: OSError, StorageFailure.
Source: Snapshots and KafkaMetadataLog of Apache Kafka; KIP-630.
"""

from __future__ import annotations

import logging
import re
from bisect import insort
from collections.abc import Iterable
from typing import Final

from tidelog.cluster.quorum.log import SnapshotId
from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import Buffer, FileSystem

logger = logging.getLogger(__name__)

CHECKPOINT_SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""Contains only the first voters of a cluster."""

# The partial files of Apache Kafka have a random number before the suffix.
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})(?:-[0-9]+)?(\.checkpoint(?:\.part|\.deleted)?)")


def snapshot_name(snapshot_id: SnapshotId) -> str:
    """Return the file name of a complete snapshot."""
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT_SUFFIX}"


class SnapshotFiles:
    """The snapshots in one directory; `ids` are the complete ones, the oldest first."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        """List the directory, and delete incomplete snapshots."""
        self._fs = fs
        self.directory = directory
        self.ids: list[SnapshotId] = []
        self._fetching: SnapshotId | None = None
        for name in fs.listdir(directory):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            if match[3] == CHECKPOINT_SUFFIX:
                self.ids.append(SnapshotId(int(match[1]), int(match[2])))
            else:
                logger.info("Deleting incomplete snapshot %s/%s", directory, name)
                fs.unlink(f"{directory}/{name}")
        self.ids.sort()

    @property
    def latest(self) -> SnapshotId | None:
        """The newest complete snapshot, None if there is none."""
        return self.ids[-1] if self.ids else None

    def path(self, snapshot_id: SnapshotId) -> str:
        """Return the path of a snapshot, which need not exist."""
        return f"{self.directory}/{snapshot_name(snapshot_id)}"

    def size(self, snapshot_id: SnapshotId) -> int:
        """Return the size of a snapshot in bytes."""
        return self._fs.size(self.path(snapshot_id))

    def write(self, snapshot_id: SnapshotId, batches: Iterable[Buffer]) -> None:
        """Write a complete snapshot durably, or delete its file if that fails; call `add` afterwards."""
        try:
            self._write_part(snapshot_id, batches)
            self._complete(snapshot_id)
        except (OSError, StorageFailure):
            self._delete_part(snapshot_id)
            raise

    def add(self, snapshot_id: SnapshotId) -> None:
        """Make a complete snapshot readable."""
        if snapshot_id not in self.ids:
            insort(self.ids, snapshot_id)

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Return bytes of a complete snapshot and its size; None if it does not exist."""
        if snapshot_id not in self.ids:
            return None
        try:
            file = self._fs.open(self.path(snapshot_id), create=False)
        except FileNotFoundError:
            logger.warning(
                "Snapshot %s does not exist; another program has deleted it", self.path(snapshot_id)
            )
            self.ids.remove(snapshot_id)
            return None
        try:
            size = file.size()
            if not 0 <= position < size:
                return b"", size
            return file.pread(min(max_bytes, size - position), position), size
        finally:
            file.close()

    def read_all(self, snapshot_id: SnapshotId) -> bytes:
        """Return the contents of a complete snapshot."""
        return self._fs.read(self.path(snapshot_id))

    def append_chunk(self, snapshot_id: SnapshotId, position: int, chunk: Buffer) -> None:
        """Append a chunk to the snapshot that is being fetched; position 0 starts a new one."""
        if self._fetching not in (None, snapshot_id):
            self._delete_part(self._fetching)
        self._fetching = snapshot_id
        try:
            self._append_part(snapshot_id, position, chunk)
        except (OSError, StorageFailure):
            self._delete_part(snapshot_id)
            raise

    def _append_part(self, snapshot_id: SnapshotId, position: int, chunk: Buffer) -> None:
        file = self._fs.open(self._part_path(snapshot_id), create=True)
        try:
            if position == 0:
                file.truncate(0)
            assert file.size() == position, (
                f"{file.path} has {file.size()} bytes, but the chunk is at position {position}"
            )
            file.append(chunk)
        finally:
            file.close()

    def read_fetched(self, snapshot_id: SnapshotId) -> tuple[str, bytes]:
        """Return the path and the contents of the fetched part of a snapshot."""
        path = self._part_path(snapshot_id)
        return path, self._fs.read(path)

    def delete_fetched(self, snapshot_id: SnapshotId) -> None:
        """Delete the fetched part of a snapshot."""
        self._fetching = None
        self._fs.unlink(self._part_path(snapshot_id))

    def finish(self, snapshot_id: SnapshotId) -> None:
        """Make a completely fetched snapshot durable and readable."""
        file = self._fs.open(self._part_path(snapshot_id), create=False)
        try:
            file.fsync()
        finally:
            file.close()
        self._complete(snapshot_id)
        self._fetching = None
        self.add(snapshot_id)

    def remove_before(self, end_offset: Offset) -> int:
        """Delete the snapshots that end below `end_offset`, and return their number."""
        expired = [each for each in self.ids if each.end_offset < end_offset]
        for snapshot_id in expired:
            self.ids.remove(snapshot_id)
            try:
                self._fs.unlink(self.path(snapshot_id))
            except FileNotFoundError:
                pass
        return len(expired)

    def _part_path(self, snapshot_id: SnapshotId) -> str:
        return self.path(snapshot_id).removesuffix(CHECKPOINT_SUFFIX) + PART_SUFFIX

    def _delete_part(self, snapshot_id: SnapshotId) -> None:
        """Delete a partial file; if that fails, the next start deletes it."""
        try:
            self._fs.unlink(self._part_path(snapshot_id))
        except FileNotFoundError:
            pass
        except (OSError, StorageFailure) as error:
            logger.error(
                "Cannot delete %s: %s; the next start deletes it", self._part_path(snapshot_id), error
            )

    def _write_part(self, snapshot_id: SnapshotId, batches: Iterable[Buffer]) -> None:
        file = self._fs.open(self._part_path(snapshot_id), create=True)
        try:
            # The file of an earlier attempt may exist.
            file.truncate(0)
            for batch in batches:
                file.append(batch)
            file.fsync()
        finally:
            file.close()

    def _complete(self, snapshot_id: SnapshotId) -> None:
        self._fs.rename(self._part_path(snapshot_id), self.path(snapshot_id))
        self._fs.fsync_dir(self.directory)
