"""Who must know, and act, before a log does something that a stale checkpoint would contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidelog.storage.log.partition_log import PartitionLog


class LogObserver(Protocol):
    """The log directory's side of a log: it keeps the checkpoints.

    Errors: what these raise stops the operation before any file was touched.
    """

    def log_start_offset_changed(self, log: PartitionLog) -> None:
        """Records are about to go that a stale log start offset would still count on: make it durable now."""
        ...

    def recovery_point_lowered(self, log: PartitionLog) -> None:
        """The log is about to be cut to `log.recovery_point` or above: make that durable now."""
        ...

    def first_dirty_offset_lowered(self, log: PartitionLog) -> None:
        """The log is about to be cut to `log.first_dirty_offset`: what comes there is not compacted."""
        ...

    def operation_refused(self, text: str, *, is_shortage: bool) -> None:
        """Report that the disk, or with `is_shortage` the lack of a descriptor, has made an operation fail.

        The log is as it was before, and its directory stays online. Never raises.
        """
        ...


class NoObserver:
    """For a log that stands alone, whose opener keeps no checkpoints."""

    def log_start_offset_changed(self, log: PartitionLog) -> None:
        """Nothing is kept."""

    def recovery_point_lowered(self, log: PartitionLog) -> None:
        """Nothing is kept."""

    def first_dirty_offset_lowered(self, log: PartitionLog) -> None:
        """Nothing is kept."""

    def operation_refused(self, text: str, *, is_shortage: bool) -> None:
        """The caller reports it."""
