"""The offsets of one log and the rules between them.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    log_start_offset <= local_log_start_offset <= high_watermark; equal unless the log is tiered

Source: UnifiedLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.producers.producer_state import ProducerStateManager


class LogOffsets:
    """The start, end, high watermark and last stable offset of a log, and where compaction continues."""

    __slots__ = (
        "_first_unstable_offset",
        "_observer",
        "_producers",
        "_topic_partition",
        "first_dirty_offset",
        "high_watermark",
        "local_log_start_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        observer: LogObserver,
        producers: ProducerStateManager,
        *,
        log_start_offset: Offset,
        local_log_start_offset: Offset,
        log_end_offset: Offset,
        first_dirty_offset: Offset | None,
    ) -> None:
        self._topic_partition = topic_partition
        self._observer = observer
        self._producers = producers
        self.log_start_offset = log_start_offset
        self.local_log_start_offset = local_log_start_offset
        """The first offset on the local disk; records below it can only be in remote storage."""
        self.log_end_offset = log_end_offset
        self.high_watermark = local_log_start_offset
        self.first_dirty_offset = first_dirty_offset
        """Where compaction continues; None if the log has never been compacted."""
        self._first_unstable_offset: Offset | None = None
        self.update_first_unstable_offset()

    @property
    def last_stable_offset(self) -> Offset:
        """Where the first open transaction starts, at most the high watermark (exclusive)."""
        unstable = self._first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return unstable
        return self.high_watermark

    def require_local(self, offset: Offset) -> None:
        """Raise KafkaError if `offset` cannot be read from the local disk.

        Errors: OFFSET_MOVED_TO_TIERED_STORAGE between log start and local log start; OFFSET_OUT_OF_RANGE.
        """
        if self.log_start_offset <= offset < self.local_log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"{self._topic_partition}: offset {offset} is below the local log start offset "
                f"{self.local_log_start_offset}",
            )
        if not self.local_log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._topic_partition}: offset {offset} is not within {self.log_start_offset} and "
                f"{self.log_end_offset}",
            )

    # -- offsets that rise

    def advance_log_end(self, offset: Offset) -> None:
        """Set the log end after an append."""
        self.log_end_offset = offset

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raise the high watermark to `offset`, at most to the log end; return whether it changed."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self._first_unstable_offset is not None:
            self.update_first_unstable_offset()
        return True

    def advance_log_start(self, offset: Offset) -> bool:
        """Raise the log start to `offset`; return whether it changed.

        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._topic_partition}: log start offset {offset} would pass the high watermark "
                f"{self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.local_log_start_offset = max(self.local_log_start_offset, offset)
        return True

    def advance_local_log_start(self, offset: Offset) -> None:
        """Raise the local log start to `offset`; records below it remain in remote storage."""
        self.local_log_start_offset = max(self.local_log_start_offset, offset)

    def set_first_dirty_offset(self, offset: Offset | None) -> None:
        """Record where compaction continues; None if the log is to be compacted from its start."""
        self.first_dirty_offset = offset

    def update_first_unstable_offset(self) -> None:
        """Derive the last stable offset again, after offsets or transactions have changed."""
        unstable = self._producers.transactions.first_unstable_offset(self.high_watermark)
        self._first_unstable_offset = None if unstable is None else max(unstable, self.log_start_offset)

    # -- truncation

    def checkpoint_log_start(self) -> None:
        """Make the log start durable now."""
        self._observer.log_start_offset_changed(self._topic_partition, self.log_start_offset)

    def reset_log_start(self, offset: Offset) -> None:
        """Set the log start of a log that is truncated, also to a lower offset."""
        self.log_start_offset = offset

    def lower_first_dirty_offset(self, offset: Offset) -> None:
        """Let compaction continue at `offset` at most, durably."""
        if self.first_dirty_offset is not None and self.first_dirty_offset > offset:
            self.first_dirty_offset = offset
        self._observer.first_dirty_offset_lowered(self._topic_partition)

    def truncate_to(self, end_offset: Offset) -> None:
        """Lower the log end to `end_offset`, and the high watermark and local log start with it."""
        self.log_end_offset = end_offset
        self.high_watermark = min(self.high_watermark, end_offset)
        self.local_log_start_offset = min(self.local_log_start_offset, end_offset)

    def restart_at(self, offset: Offset) -> None:
        """Let the local log start and end at `offset`; the log start does not change."""
        self.high_watermark = self.log_end_offset = self.local_log_start_offset = offset
