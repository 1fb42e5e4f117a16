"""The start of one log, which rises by retention, by DeleteRecords and before remote records are deleted.

Source: UnifiedLog.maybeIncrementLogStartOffset of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.protocol.ids import Offset
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.remote_border import RemoteBorder
from tidelog.storage.producers.producer_state import ProducerStateManager


class LogStart:
    """Raises the log start, and removes the leader epochs and producers that end below it."""

    __slots__ = ("_border", "_epochs", "_offsets", "_producers")

    def __init__(
        self,
        offsets: LogOffsets,
        border: RemoteBorder,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
    ) -> None:
        self._offsets = offsets
        self._border = border
        self._epochs = epochs
        self._producers = producers

    def advance(self, offset: Offset) -> bool:
        """Raise the log start to `offset`; return whether it changed.

        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        is_in_local_part = offset >= self._offsets.local_log_start_offset
        if not self._offsets.advance_log_start(offset):
            return False
        self._border.on_log_start_advanced(is_in_local_part=is_in_local_part)
        self._epochs.truncate_from_start(offset)
        self._producers.on_log_start_offset_incremented(offset)
        self._offsets.update_first_unstable_offset()
        return True
