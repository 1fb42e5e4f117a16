"""Making a log durable up to an offset, in another thread than the one that owns the log.

The owner takes a plan (which files, up to which offset), a worker runs it, and the owner hears of it
by `PartitionLog.flushed`, which moves the recovery point. Appends go on meanwhile: what they write
after the plan was made may or may not be durable, and is not counted.

Errors: StorageFailure when an fsync fails. It is final: the kernel may have dropped the pages, so the
log directory goes offline and nothing is retried ("fsyncgate"). OSError when there is no descriptor to sync
with (`is_descriptor_shortage`): no fsync has failed then, and the same plan may run again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.disk.on_demand_file import UnsyncedChanges
from tidelog.storage.producers.snapshot_files import flush_snapshot


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """Files to sync so that everything below `end_offset` survives a crash."""

    fs: FileSystem
    end_offset: Offset
    generation: int
    """How often the log had been truncated; a plan made before a truncation proves nothing after it."""
    files: tuple[File, ...]
    changes: tuple[UnsyncedChanges, ...]
    """What of `files` is closed once it is durable."""
    paths: tuple[str, ...]
    """Small files that were written without a sync, such as producer snapshots."""
    directories: tuple[str, ...]
    """Where names of new files must be made durable too."""

    def run(self) -> None:
        """Sync all of it. I/O: blocks for as long as the disk takes; call it from any one thread."""
        for file in self.files:
            file.fsync()
        for path in self.paths:
            flush_snapshot(self.fs, path)
        for directory in self.directories:
            self._sync_directory(directory)

    def _sync_directory(self, directory: str) -> None:
        try:
            self.fs.fsync_dir(directory)
        except FileNotFoundError:
            pass  # the partition was deleted meanwhile, which renames its directory
        except OSError as error:
            if is_descriptor_shortage(error):
                raise
            raise StorageFailure(directory, "fsync", error.strerror or str(error)) from error
