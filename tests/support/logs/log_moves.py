"""Moves of logs between the directories of a log manager, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from tests.support.clocks.manual_clock import NOW_MS
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.directories.log_move import LogMove


def begin_move(
    manager: LogManager, topic_partition: TopicPartition, path: str, new_id: Callable[[], object] = uuid4
) -> LogMove:
    """Return the move of a log to the log directory `path`, which has begun."""
    source = next(each for each in manager.directories if topic_partition in each.logs)
    target = next(each for each in manager.directories if each.path == path)
    move = LogMove(source.logs[topic_partition], source, target, new_id)  # type: ignore[arg-type]
    move.begin()
    return move


def copy_step(move: LogMove) -> bool:
    """Run the next step of the copy; return False if there is none."""
    step = move.future.next_step()
    if step is None:
        return False
    step.run()
    step.on_done()
    return True


def copy_all(move: LogMove) -> None:
    """Copy everything that the log has now."""
    while copy_step(move):
        pass


def checkpoint_copy(move: LogMove) -> None:
    """Make the copy durable, and write the checkpoints of the target directory."""
    step = move.future.planned_checkpoint()
    step.run()
    step.on_done()
    for write in move.planned_checkpoints():
        write()


def retire_source(move: LogMove) -> None:
    """Flush the log in its new directory, and delete the old files."""
    move.log.flush(NOW_MS)
    retirement = move.planned_retirement(NOW_MS)
    retirement.run()
    move.on_retired(retirement)


def complete_move(move: LogMove) -> None:
    """Copy the rest, and let the log use the copy."""
    copy_all(move)
    checkpoint_copy(move)
    assert move.future.can_replace
    move.replace()
    retire_source(move)
