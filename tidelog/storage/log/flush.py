"""A plan that makes a log durable up to an offset, outside of the thread that owns the log.

The owner creates a plan with `Durability.flush_plan`, any thread runs it, and then the owner calls
`Durability.flushed`, which raises the recovery point. Appends continue meanwhile. Records that were
appended after the plan was created may become durable too, but are not counted.

Errors: StorageFailure if an fsync fails. It is final: the kernel may have dropped the pages, so the
log directory goes offline and nothing is retried ("fsyncgate"). OSError if no file descriptor is available
(`is_descriptor_shortage`): then no fsync has failed, and the same plan may run again.
"""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.disk.on_demand_file import UnsyncedChanges
from tidelog.storage.log.leader_epoch_file_cache import EpochWrite
from tidelog.storage.producers.snapshot_files import flush_snapshot


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """The files to sync so that everything below `end_offset` survives a crash."""

    fs: FileSystem
    end_offset: Offset
    generation: int
    """How often the log had been truncated; a plan from before a truncation proves nothing after it."""
    files: tuple[File, ...]
    changes: tuple[UnsyncedChanges, ...]
    """The changes of those `files` that are closed after the flush."""
    epoch_write: EpochWrite | None
    """The write of the leader epochs; None if their file is up to date."""
    paths: tuple[str, ...]
    """Small files that were written without a sync, such as producer snapshots."""
    directories: tuple[str, ...]
    """Directories in which the names of new files must become durable."""

    def run(self) -> None:
        """Sync all files. I/O: blocks until the disk has completed; call it from any one thread."""
        for file in self.files:
            file.fsync()
        try:
            if self.epoch_write is not None:
                self.epoch_write.run()
        except FileNotFoundError:
            pass  # the partition was deleted meanwhile, which renames its directory
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
