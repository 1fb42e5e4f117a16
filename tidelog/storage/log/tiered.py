"""Where a log starts, locally and in remote storage, and what is told about its remote part.

A log that is not tiered starts locally where it starts. The offsets move in an order that keeps every
offset readable in one place or the other (KAFKA-15352, KAFKA-16073): the local start rises before local
segments go, which need to be in remote storage, and the log start rises before remote segments go.

Source: UnifiedLog of Apache Kafka 4.3; KIP-405, KIP-950.
"""

from __future__ import annotations

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.retention import LogBounds, RetentionLimits, expired_segments
from tidelog.storage.log.tiered_retention import RemoteBounds, has_remote_part, is_tiered, local_retention
from tidelog.storage.log.writer import WritableLog
from tidelog.storage.segment.segment import LogSegment


class TieredLog(WritableLog):
    """A log whose older part may be in remote storage."""

    def update_config(self, config: LogConfig) -> None:
        """Follow changed settings from the next append on.

        A log that is tiered no more starts where its local part does: its remote part is deleted.
        """
        had_remote_part = self.may_have_remote_part
        super().update_config(config)
        self.remote_log_enabled = is_tiered(
            self.topic_partition, config, is_system_enabled=self.remote_storage_system_enable
        )
        if had_remote_part and not self.may_have_remote_part:
            self.lose_remote_log()
            self.advance_log_start_offset(self.local_log_start_offset)

    @property
    def may_have_remote_part(self) -> bool:
        """Whether something of the log may be in remote storage, also while it is compacted by a default."""
        return has_remote_part(
            self.topic_partition, self.config, is_system_enabled=self.remote_storage_system_enable
        )

    def note_highest_offset_in_remote_storage(self, offset: Offset) -> None:
        """The log is in remote storage up to `offset` (inclusive; -1: nothing is). Never goes back.

        A follower that has not copied that far yet notes what it has got of it.
        """
        if not self.remote_log_enabled:
            return
        self.is_remote_log_known = True
        offset = min(offset, self.log_end_offset - 1)
        self.highest_offset_in_remote_storage = max(self.highest_offset_in_remote_storage, offset)

    def forget_remote_log(self) -> None:
        """This replica has another role now: what remote storage holds is to be told again."""
        self.is_remote_log_known = False

    def lose_remote_log(self) -> None:
        """What remote storage holds is being deleted: what is local stays until it is there anew."""
        self.is_remote_log_known = False
        self.highest_offset_in_remote_storage = -1

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Hide what is below `offset` from readers, as DeleteRecords asks; True when the start moved.

        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: log start offset {offset} would pass the high watermark "
                f"{self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.has_start_in_local_part = offset >= self.local_log_start_offset
        self.local_log_start_offset = max(self.local_log_start_offset, offset)
        # Not written at once: opening the log derives the same from the log start offset.
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_log_start_offset_incremented(offset)
        self.update_first_unstable_offset()
        return True

    def advance_log_start_offset_from_remote(self, offset: Offset) -> bool:
        """What is below `offset` is about to leave remote storage; True when the start moved.

        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark. Nothing may be deleted then.
        """
        return self.remote_log_enabled and self.advance_log_start_offset(offset)

    def expire_segments(self, now_ms: int) -> list[LogSegment]:
        """The first half of `apply_retention`: move the start behind the expired segments, and name them.

        They are passed to `remove_expired` once the log start is durable.
        """
        self.refuse_after_failure()
        if len(self.segments) == 1 and not self.segments.active.size_bytes:
            return []  # nodes have thousands of logs, and many are empty
        bounds = LogBounds(self.log_start_offset, self.high_watermark, self.log_end_offset)
        segments = list(self.segments)
        if not self.remote_log_enabled:
            expired = expired_segments(segments, RetentionLimits.of(self.config), bounds, now_ms)
        else:
            remote = RemoteBounds(
                self.local_log_start_offset, self.highest_offset_in_remote_storage, self.is_remote_log_known
            )
            expired, rolls = local_retention(segments, self.config, bounds, remote, now_ms)
            if rolls:
                self.roll(now_ms)
        if expired:
            if len(expired) == len(self.segments):
                self.roll(now_ms)
            following = self.segments.higher(expired[-1].base_offset)
            assert following is not None
            self._start_at_segment(following)
        return expired

    def _start_at_segment(self, segment: LogSegment) -> None:
        """What stands before `segment` is about to go from local disk."""
        if self.remote_log_enabled and not self.config.remote_log_copy_disable:
            self.local_log_start_offset = max(self.local_log_start_offset, segment.base_offset)
        elif segment.base_offset > self.local_log_start_offset:
            self.advance_log_start_offset(segment.base_offset)
