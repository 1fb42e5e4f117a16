"""The points at which a node may crash while it works on remote segments; tests stop it there."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeAlias


class FaultPoint(Enum):
    """A point between two steps; BEFORE_... is the point before the first step."""

    BEFORE_COPY_STARTED = auto()
    AFTER_COPY_STARTED = auto()
    """The metadata records that a copy began; no object exists yet."""
    AFTER_COPY_STORED = auto()
    """The objects exist; readers do not use them yet."""
    AFTER_COPY_FINISHED = auto()
    """Readers may use the segment; the log's highest offset in remote storage is not updated yet."""
    AFTER_COPY_NOTED = auto()
    BEFORE_LOG_START_MOVED = auto()
    AFTER_LOG_START_MOVED = auto()
    BEFORE_DELETE_STARTED = auto()
    AFTER_DELETE_STARTED = auto()
    """Readers no longer use the segment; its objects exist."""
    AFTER_DELETE_STORED = auto()
    """The objects are deleted; the metadata still contains the segment."""
    AFTER_DELETE_FINISHED = auto()
    BEFORE_PARTITION_MARKED = auto()
    AFTER_PARTITION_MARKED = auto()
    AFTER_PARTITION_STARTED = auto()
    AFTER_PARTITION_EMPTIED = auto()
    """All segments of the partition are deleted; the deletion of the partition is not finished."""
    AFTER_PARTITION_FINISHED = auto()


FaultPoints: TypeAlias = Callable[[FaultPoint], None]
"""Called when a point is reached; raises to stop the work there."""


def no_faults(point: FaultPoint) -> None:
    """Do nothing, as in production."""
