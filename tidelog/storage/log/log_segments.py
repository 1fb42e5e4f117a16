"""The segments of one log and their files: rolling, removing and replacing segments.

Source: LocalLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.deleted_files import DeletedFiles
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.disk.log_files import DELETED_SUFFIX
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.log.durability import Durability
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.segment.segment import LogSegment, create_segment
from tidelog.storage.segment.segments import Segments


class LogSegments:
    """The segments of a log in use, and the files of deleted ones that wait to be unlinked."""

    __slots__ = (
        "_durability",
        "_producers",
        "_settings",
        "deleted_files",
        "directory",
        "fs",
        "segments",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        settings: LogSettings,
        segments: Segments,
        producers: ProducerStateManager,
        durability: Durability,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.segments = segments
        self.deleted_files = DeletedFiles()
        self._settings = settings
        self._producers = producers
        self._durability = durability

    def sync_directory(self) -> None:
        """Make the names of the files durable."""
        self.fs.fsync_dir(self.directory)

    def relocate(self, directory: str, active_file: File, index_files: Sequence[OnDemandFile]) -> None:
        """Use the copies of all files in `directory`; the last arguments are those of the active segment.

        Deleted files remain in the previous directory, which is removed as a whole.
        """
        self.directory = directory
        self.deleted_files = DeletedFiles()
        self._producers.snapshots.relocate(directory)
        *sealed, active = self.segments
        for segment in sealed:
            segment.files.relocate(directory)
        active.files.relocate_active(directory, active_file, index_files)

    # -- new segments

    def roll(self, base_offset: Offset, log_end_offset: Offset, now_ms: int) -> LogSegment:
        """Seal the active segment and return a new one that starts at `base_offset`.

        The producers' state at that offset is written to a snapshot, so that recovery can begin there. The
        next flush syncs it and the indexes. After an error the log continues with the segment it had.
        """
        active = self.segments.active
        if active.base_offset == base_offset and active.size_bytes == 0:
            return active
        active.complete_indexes()
        if self._durability.recovery_point >= log_end_offset:
            # The records are durable already, so neither a flush nor recovery includes the segment again.
            active.files.sync_indexes()
        self.take_producer_snapshot(base_offset)
        segment = self.add_new(base_offset, now_ms)
        active.files.unload_indexes()
        return segment

    def add_new(self, base_offset: Offset, now_ms: int) -> LogSegment:
        """Create an empty segment that starts at `base_offset` and add it to the log."""
        segment = create_segment(self.fs, self.directory, base_offset, self._settings.config, now_ms)
        self.segments.add(segment)
        return segment

    def take_producer_snapshot(self, offset: Offset) -> None:
        """Write the producers' state at `offset`; the next flush syncs the file."""
        self._producers.update_map_end_offset(offset)
        self._durability.add_unsynced_path(self._producers.take_snapshot(sync=False))

    # -- segments that are deleted or replaced

    def remove(self, segment: LogSegment, now_ms: int, *, keeps_snapshot: bool = False) -> None:
        """Remove a segment: its files are renamed now and unlinked after file.delete.delay.ms.

        With `keeps_snapshot` the producer snapshot at the segment's start remains.
        """
        self.segments.remove(segment)
        paths = segment.files.rename(self.fs, "", DELETED_SUFFIX)
        if not keeps_snapshot:
            snapshot = self._producers.snapshots.mark_for_deletion(segment.base_offset)
            if snapshot is not None:
                paths.append(snapshot)
        self.deleted_files.add(paths, now_ms + self._settings.config.file_delete_delay_ms)

    def remove_all(self, segments: Iterable[LogSegment], now_ms: int) -> None:
        """Remove each of `segments`, the oldest first."""
        for segment in segments:
            self.remove(segment, now_ms)
