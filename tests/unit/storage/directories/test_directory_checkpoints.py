"""Before a partition is created, its lines in the checkpoints of the log directory are removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.directories.directory_checkpoints import DirectoryCheckpoints
from tidelog.storage.directories.directory_moves import DirectoryMoves
from tidelog.storage.disk.checkpoints import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

OLD = TopicPartition("old", 0)
NEW = TopicPartition("new", 0)


class Lines(dict[TopicPartition, Offset]):
    """Checkpoint lines that must not be iterated."""

    def items(self) -> NoReturn:
        raise AssertionError("the lines of all partitions are iterated")

    def __iter__(self) -> NoReturn:
        raise AssertionError("the lines of all partitions are iterated")


def checkpoints(
    fs: CrashFileSystem, lines: Mapping[TopicPartition, Offset] | None = None
) -> DirectoryCheckpoints:
    fs.makedirs("/data")
    OffsetCheckpoint(fs, f"/data/{RECOVERY_POINT_CHECKPOINT}").write({OLD: 5} if lines is None else lines)
    directory_checkpoints = DirectoryCheckpoints(fs, "/data", {}, (), DirectoryMoves())
    directory_checkpoints.read()
    return directory_checkpoints


@contextmanager
def iteration_forbidden(directory_checkpoints: DirectoryCheckpoints) -> Iterator[None]:
    """Let the iteration over the lines of a checkpoint raise within a `with` block."""
    each_checkpoint = list(directory_checkpoints._checkpoints.values())
    states = [checkpoint._latest for checkpoint in each_checkpoint]
    for checkpoint, state in zip(each_checkpoint, states, strict=True):
        checkpoint._latest = state._replace(offsets=Lines(state.offsets))
    yield
    for checkpoint, state in zip(each_checkpoint, states, strict=True):
        checkpoint._latest = state


def test_a_creation_does_not_rewrite_lines_of_other_partitions() -> None:
    """The creation of 2,000 partitions next to 8,000 existing ones blocked the event loop for seconds."""
    directory_checkpoints = checkpoints(CrashFileSystem())
    with iteration_forbidden(directory_checkpoints):
        assert directory_checkpoints.planned_forget([NEW]) == []


def test_a_creation_before_a_planned_write_repeats_it_without_a_copy_of_the_lines() -> None:
    """10,000 creations after a deletion blocked the event loop for 136 ms: each copied all lines."""
    fs = CrashFileSystem()
    directory_checkpoints = checkpoints(fs)
    [pending] = directory_checkpoints.planned_forget([OLD])
    with iteration_forbidden(directory_checkpoints):
        [write] = directory_checkpoints.planned_forget([NEW])
    write()
    assert OffsetCheckpoint(fs, f"/data/{RECOVERY_POINT_CHECKPOINT}").read() == {}
    pending()
    assert directory_checkpoints.planned_forget([OLD, NEW]) == []


def test_a_planned_write_contains_the_latest_lines_and_later_ones_are_not_repeated() -> None:
    """A garbage collection took 40 ms: each of 100 planned deletions kept the lines of 10,000 partitions."""
    fs = CrashFileSystem()
    directory_checkpoints = checkpoints(fs, {OLD: 5, NEW: 7})
    [first] = directory_checkpoints.planned_forget([OLD])
    [second] = directory_checkpoints.planned_forget([NEW])
    first()
    path = f"/data/{RECOVERY_POINT_CHECKPOINT}"
    assert OffsetCheckpoint(fs, path).read() == {}
    fs.unlink(path)
    second()
    assert not fs.exists(path)


def test_a_line_that_could_not_be_removed_is_removed_by_the_next_creation() -> None:
    fs = CrashFileSystem()
    directory_checkpoints = checkpoints(fs)
    [_] = directory_checkpoints.planned_forget([OLD])  # no descriptor was available
    [write] = directory_checkpoints.planned_forget([OLD])
    write()
    assert OffsetCheckpoint(fs, f"/data/{RECOVERY_POINT_CHECKPOINT}").read() == {}
    assert directory_checkpoints.planned_forget([OLD]) == []
