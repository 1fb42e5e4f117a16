"""The log directory's part in changes of a log: it stores the checkpoints of all its logs."""

from __future__ import annotations

from typing import Protocol

from tidelog.protocol.ids import Offset, TopicPartition


class LogObserver(Protocol):
    """Makes offsets durable before a log does something that an older checkpoint would contradict.

    Errors: an error of these methods stops the operation of the log before any file has changed.
    """

    def log_start_offset_changed(self, topic_partition: TopicPartition, log_start_offset: Offset) -> None:
        """Make the log start offset durable; records below it are removed next."""
        ...

    def recovery_point_lowered(self, topic_partition: TopicPartition) -> None:
        """Make the lowered recovery point durable; the log is truncated next."""
        ...

    def first_dirty_offset_lowered(self, topic_partition: TopicPartition) -> None:
        """Make the lowered first dirty offset durable; records that are not compacted follow it."""
        ...

    def operation_refused(self, text: str, *, is_shortage: bool) -> None:
        """Report that an operation failed, and that the log is as it was before; never raise.

        `is_shortage` is True if no file descriptor was available, False if the disk failed. The log directory
        stays online.
        """
        ...


class NoObserver:
    """The observer of a log outside of a log directory, which has no checkpoints."""

    def log_start_offset_changed(self, topic_partition: TopicPartition, log_start_offset: Offset) -> None:
        """Do nothing."""

    def recovery_point_lowered(self, topic_partition: TopicPartition) -> None:
        """Do nothing."""

    def first_dirty_offset_lowered(self, topic_partition: TopicPartition) -> None:
        """Do nothing."""

    def operation_refused(self, text: str, *, is_shortage: bool) -> None:
        """Do nothing; the caller reports the error."""


class ReplaceableObserver:
    """Forwards to the observer of the log directory in which the log is stored now."""

    __slots__ = ("_current",)

    def __init__(self, current: LogObserver) -> None:
        self._current = current

    def replace(self, observer: LogObserver) -> None:
        """Forward to `observer` from now on: the log is in another directory."""
        self._current = observer

    def log_start_offset_changed(self, topic_partition: TopicPartition, log_start_offset: Offset) -> None:
        """Forward to the current directory."""
        self._current.log_start_offset_changed(topic_partition, log_start_offset)

    def recovery_point_lowered(self, topic_partition: TopicPartition) -> None:
        """Forward to the current directory."""
        self._current.recovery_point_lowered(topic_partition)

    def first_dirty_offset_lowered(self, topic_partition: TopicPartition) -> None:
        """Forward to the current directory."""
        self._current.first_dirty_offset_lowered(topic_partition)

    def operation_refused(self, text: str, *, is_shortage: bool) -> None:
        """Forward to the current directory."""
        self._current.operation_refused(text, is_shortage=is_shortage)
