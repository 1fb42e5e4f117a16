"""The moments at which a node may die while it works on remote segments, for tests that end it there."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeAlias


class FaultPoint(Enum):
    """A moment between two steps; BEFORE_... is the moment before the first."""

    BEFORE_COPY_STARTED = auto()
    AFTER_COPY_STARTED = auto()
    """The metadata says that a copy began; there is no object yet."""
    AFTER_COPY_STORED = auto()
    """The objects are there; nobody may read them."""
    AFTER_COPY_FINISHED = auto()
    """Readers may have the segment; the log does not know that it is remote."""
    AFTER_COPY_NOTED = auto()
    BEFORE_LOG_START_MOVED = auto()
    AFTER_LOG_START_MOVED = auto()
    BEFORE_DELETE_STARTED = auto()
    AFTER_DELETE_STARTED = auto()
    """Readers may not have the segment; its objects are there."""
    AFTER_DELETE_STORED = auto()
    """The objects are gone; the metadata names the segment."""
    AFTER_DELETE_FINISHED = auto()
    BEFORE_PARTITION_MARKED = auto()
    AFTER_PARTITION_MARKED = auto()
    AFTER_PARTITION_STARTED = auto()
    AFTER_PARTITION_EMPTIED = auto()
    """All segments of the partition are gone; its deletion is not over."""
    AFTER_PARTITION_FINISHED = auto()


FaultPoints: TypeAlias = Callable[[FaultPoint], None]
"""Is told when a point is reached; raises to end the work there."""


def no_faults(point: FaultPoint) -> None:
    """Nothing happens, as in production."""
