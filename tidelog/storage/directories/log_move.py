"""The move of one log to another log directory of the node: copy, checkpoints, removal of the old files.

    begin -> copy of `future` -> planned_checkpoints -> replace -> flush of the log -> planned_retirement
         |                  |
         +----- cancel -----+-> the copy is removed

The checkpoints of the target directory have the offsets of the log before the copy replaces it. Those of the
source directory keep them until the copy and its name are durable and the old files are removed. After a
crash, the directory that is used therefore has the log start offset and the recovery point of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.future_log import FutureLog, remove_replacement_marker
from tidelog.storage.directories.log_directory import LogDirectory, Retirement
from tidelog.storage.directories.partition_directory import (
    DirectoryKind,
    directory_name,
    parse_directory_name,
    renamed_directory_name,
)
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.partition_log import PartitionLog


class LogMove:
    """The move of `log` from `source` to `target`."""

    def __init__(
        self, log: PartitionLog, source: LogDirectory, target: LogDirectory, new_id: Callable[[], UUID]
    ) -> None:
        assert source is not target, f"{log.topic_partition} is in {source.path} already"
        self.log = log
        self.source = source
        self.target = target
        self._new_id = new_id
        path = target.moves.interrupted.pop(log.topic_partition, None)
        if path is None:
            name = renamed_directory_name(log.topic_partition, DirectoryKind.FUTURE, new_id())
            path = f"{target.path}/{name}"
        self.future = FutureLog(log, path)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the log."""
        return self.log.topic_partition

    @property
    def is_possible(self) -> bool:
        """Whether the log is still in the source directory, and both directories are online."""
        is_here = self.source.logs.get(self.topic_partition) is self.log
        return is_here and self.target.offline_reason is None

    def begin(self) -> None:
        """Show the copy in the description of the target directory. I/O: none."""
        self.target.moves.future_logs[self.topic_partition] = self.future

    def hide(self) -> None:
        """Show the copy no longer in the description of the target directory."""
        future_logs = self.target.moves.future_logs
        if future_logs.get(self.topic_partition) is self.future:
            del future_logs[self.topic_partition]

    def planned_checkpoints(self) -> list[Callable[[], None]]:
        """Return the writes of the target's checkpoints with the offsets of the log, for any thread.

        The copy must be durable. The writes precede `replace`.
        """
        self.target.moves.arriving[self.topic_partition] = self.log
        planned = (self.target.checkpoints.planned_write(kind) for kind in CheckpointKind)
        return [write for write in planned if write is not None]

    def forget_checkpoints(self) -> None:
        """Let the next checkpoints of the target not contain the log, if it has not been replaced."""
        self.target.moves.arriving.pop(self.topic_partition, None)

    def replace(self) -> None:
        """Let the log use its copy. `future.can_replace` must be True, and the checkpoints must be written.

        The caller then flushes the log, and runs `planned_retirement`.
        Errors: OSError, StorageFailure; then the log uses its own files.
        """
        key, source, target = self.topic_partition, self.source, self.target
        assert key in target.moves.arriving, f"{key} has no checkpoints in {target.path}"
        self.future.replace(f"{target.path}/{directory_name(key)}", target)
        source.moves.departed.add(key)
        del source.logs[key]
        self.hide()
        del target.moves.arriving[key]
        target.logs[key] = self.log

    def planned_retirement(self, now_ms: int) -> Retirement:
        """Return the deletion of the old files, after the log was flushed; then call `on_retired`.

        If the log could not be flushed, because the disk of the target has failed, they are kept as a stray.
        """
        is_durable = self.target.offline_reason is None
        kind = DirectoryKind.DELETED if is_durable else DirectoryKind.STRAY
        retirement = self.source.planned_retirement([self.topic_partition], kind, now_ms)

        def run() -> None:
            retirement.run()
            if is_durable:
                with suppress(
                    FileNotFoundError
                ):  # The partition may be deleted, which renames its directory.
                    remove_replacement_marker(self.log.fs, self.log.directory)

        return retirement._replace(run=run)

    def on_retired(self, retirement: Retirement) -> None:
        """Complete the move after `retirement` has run."""
        self.source.moves.departed.discard(self.topic_partition)
        self.source.on_retired(retirement)

    def planned_removal(self) -> Callable[[], None]:
        """End the move before `replace`, and return the removal of the copy, for any thread.

        I/O of the removal: long for large files. Errors of the removal: OSError, StorageFailure.
        """
        self.hide()
        self.forget_checkpoints()
        self.future.close()
        name = renamed_directory_name(self.topic_partition, DirectoryKind.DELETED, self._new_id())
        fs, path, deleted = self.log.fs, self.future.directory, f"{self.target.path}/{name}"
        return lambda: _remove_copy(fs, path, deleted)


def _remove_copy(fs: FileSystem, path: str, deleted: str) -> None:
    """Remove a directory; the new name shows a start after a crash that it must not be copied again."""
    if fs.exists(path):
        fs.rename(path, deleted)
        fs.fsync_dir(path.rpartition("/")[0])
        fs.rmtree(deleted)


def remove_interrupted_copy(target: LogDirectory, topic_partition: TopicPartition) -> None:
    """Remove an incomplete copy that was there at the start, and that is not continued. I/O: long."""
    path = target.moves.interrupted.pop(topic_partition, None)
    if path is None:
        return
    assert parse_directory_name(path.rpartition("/")[2]) is not None
    with suppress(FileNotFoundError):
        target.fs.rmtree(path)
