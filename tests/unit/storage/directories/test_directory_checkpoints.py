"""Before a partition is created, its lines in the checkpoints of the log directory are removed."""

from __future__ import annotations

from typing import NoReturn

from tests.support.disks.crash_file_system import CrashFileSystem
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.directories.directory_checkpoints import DirectoryCheckpoints
from tidelog.storage.directories.directory_moves import DirectoryMoves
from tidelog.storage.disk.checkpoints import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint

OLD = TopicPartition("old", 0)
NEW = TopicPartition("new", 0)


class Lines(dict[TopicPartition, Offset]):
    """Checkpoint lines that must not be iterated."""

    def items(self) -> NoReturn:
        raise AssertionError("the lines of all partitions are iterated")

    def __iter__(self) -> NoReturn:
        raise AssertionError("the lines of all partitions are iterated")


def checkpoints(fs: CrashFileSystem) -> DirectoryCheckpoints:
    fs.makedirs("/data")
    OffsetCheckpoint(fs, f"/data/{RECOVERY_POINT_CHECKPOINT}").write({OLD: 5})
    directory_checkpoints = DirectoryCheckpoints(fs, "/data", {}, (), DirectoryMoves())
    directory_checkpoints.read()
    return directory_checkpoints


def test_a_creation_does_not_rewrite_lines_of_other_partitions() -> None:
    """The creation of 2,000 partitions next to 8,000 existing ones blocked the event loop for seconds."""
    directory_checkpoints = checkpoints(CrashFileSystem())
    for checkpoint in directory_checkpoints._checkpoints.values():
        checkpoint.written = Lines(checkpoint.written)
    assert directory_checkpoints.planned_forget([NEW]) == []


def test_a_line_that_could_not_be_removed_is_removed_by_the_next_creation() -> None:
    fs = CrashFileSystem()
    directory_checkpoints = checkpoints(fs)
    [_] = directory_checkpoints.planned_forget([OLD])  # no descriptor was available
    [write] = directory_checkpoints.planned_forget([OLD])
    write()
    assert OffsetCheckpoint(fs, f"/data/{RECOVERY_POINT_CHECKPOINT}").read() == {}
    assert directory_checkpoints.planned_forget([OLD]) == []
