"""The producer snapshots in a partition directory: listing, writing, reading and removing them.

A crash may damage a snapshot, as it is not always synced. Its CRC shows that; then an older snapshot or the
log itself is used.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Collection

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import CorruptSnapshot
from tidelog.storage.disk.files import FileSystem, parent_directory
from tidelog.storage.disk.log_files import DELETED_SUFFIX, SNAPSHOT_SUFFIX, base_offset_of, file_name
from tidelog.storage.producers.producer_entry import ProducerEntry
from tidelog.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot

_log = logging.getLogger(__name__)


class SnapshotFiles:
    """The `.snapshot` files of one partition directory.

    Invariant: `offsets` are those of the files, ascending.
    """

    __slots__ = ("_fs", "directory", "offsets")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.directory = directory
        self.offsets: list[Offset] = []
        self._rescan()

    def relocate(self, directory: str) -> None:
        """Use the copies of the files in `directory`."""
        self.directory = directory

    def path(self, offset: Offset) -> str:
        """Return the path of the snapshot at `offset`."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def _rescan(self) -> None:
        """Read the names in the directory again."""
        self.offsets = sorted(
            offset
            for name in self._fs.listdir(self.directory)
            if name.endswith(SNAPSHOT_SUFFIX) and (offset := base_offset_of(name)) is not None
        )

    def write(self, offset: Offset, entries: Collection[ProducerEntry], *, sync: bool) -> str:
        """Write a snapshot and return its path; without `sync` it is durable only after `flush_snapshot`."""
        path = self.path(offset)
        file = self._fs.open(path, create=True)
        try:
            file.truncate(0)
            file.append(encode_snapshot(entries))
        finally:
            file.close()
        if offset not in self.offsets:
            insort(self.offsets, offset)
        if sync:
            flush_snapshot(self._fs, path)
        return path

    def read_newest(self) -> tuple[Offset, list[ProducerEntry]] | None:
        """Return the newest readable snapshot; delete damaged ones above it, with a warning."""
        while self.offsets:
            offset = self.offsets[-1]
            path = self.path(offset)
            try:
                return offset, decode_snapshot(self._fs.read(path), path)
            except CorruptSnapshot as damage:
                _log.warning("deleting damaged producer snapshot %s", damage)
                self.delete(offset)
        return None

    def delete(self, offset: Offset) -> None:
        """Remove the snapshot at `offset`, if there is one."""
        index = bisect_left(self.offsets, offset)
        if index < len(self.offsets) and self.offsets[index] == offset:
            del self.offsets[index]
            if self._fs.exists(self.path(offset)):
                self._fs.unlink(self.path(offset))

    def mark_for_deletion(self, offset: Offset) -> str | None:
        """Give the snapshot the `.deleted` suffix; return its new path, None if there is no snapshot."""
        if offset not in self.offsets:
            return None
        self.offsets.remove(offset)
        path = self.path(offset)
        if not self._fs.exists(path):
            return None
        self._fs.rename(path, path + DELETED_SUFFIX)
        return path + DELETED_SUFFIX

    def remove_strays(self, segment_base_offsets: Collection[Offset]) -> None:
        """Remove snapshots that belong to no segment, but not the newest, which a clean shutdown wrote."""
        self._rescan()
        strays = [offset for offset in self.offsets if offset not in segment_base_offsets]
        if strays and (not segment_base_offsets or strays[-1] > max(segment_base_offsets)):
            strays.pop()
        for offset in strays:
            self.delete(offset)


def flush_snapshot(fs: FileSystem, path: str) -> None:
    """Make a snapshot durable, in any thread; ignore one that was removed meanwhile."""
    try:
        file = fs.open(path, create=False)
    except FileNotFoundError:
        return
    try:
        file.fsync()
    finally:
        file.close()
    fs.fsync_dir(parent_directory(path))
