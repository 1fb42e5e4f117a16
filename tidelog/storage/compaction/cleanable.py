"""Which part of a log is not compacted, how large it is, and whether the log must be compacted.

    clean | dirty, cleanable | not cleanable
          |                  |
          first_dirty_offset |
                             end_offset: the base offset of a segment

These segments are not cleanable: the active one, those that are not durable or reach beyond the last stable
offset, and those with a record younger than min.compaction.lag.ms. A log is compacted if its dirty share is
above min.cleanable.dirty.ratio, or a dirty record is older than max.compaction.lag.ms (KIP-354).

Source: LogCleanerManager, LogToClean of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment

_NO_LIMIT: Final = 2**63 - 1


class Cleanable(NamedTuple):
    """The clean and dirty parts of a log."""

    first_dirty_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    """Of the dirty part that is cleanable."""
    delay_ms: int
    """For how long the oldest dirty record has been older than max.compaction.lag.ms; 0 if it is younger."""

    @property
    def ratio(self) -> float:
        """The dirty share of clean and cleanable bytes, from 0 to 1."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


def is_cleaned(log: PartitionLog) -> bool:
    """Return whether a log is compacted at all; as in Kafka, not if it may have a remote part."""
    return log.config.is_compacted and not log.remote_border.may_have_remote_part


def is_due(log: PartitionLog, cleanable: Cleanable) -> bool:
    """Return whether a log must be compacted now."""
    if cleanable.delay_ms > 0 and cleanable.dirty_bytes > 0:
        return True
    return cleanable.ratio > log.config.min_cleanable_dirty_ratio


def find_cleanable(log: PartitionLog, now_ms: int) -> Cleanable:
    """Return the clean and dirty parts of the log.

    I/O: with max.compaction.lag.ms the headers of first batches. Errors: KafkaError if that fails.
    """
    first_dirty_offset = _first_dirty_offset(log)
    sealed = list(log.segments)[:-1]
    ends = [segment.base_offset for segment in sealed[1:]]
    ends.append(log.segments.active.base_offset)
    limit = min(log.last_stable_offset, log.durability.recovery_point)
    young_ms = now_ms - log.config.min_compaction_lag_ms if log.config.min_compaction_lag_ms else _NO_LIMIT
    end_offset, clean_bytes, dirty_bytes = log.segments.first.base_offset, 0, 0
    for segment, end in zip(sealed, ends, strict=False):
        is_dirty = end > first_dirty_offset
        if end > limit or (is_dirty and segment.largest_timestamp() > young_ms):
            break
        end_offset = end
        if is_dirty:
            dirty_bytes += segment.size_bytes
        else:
            clean_bytes += segment.size_bytes
    dirty = [segment for segment, end in zip(sealed, ends, strict=False) if end > first_dirty_offset]
    with log.failures.storage_errors("compaction"):
        delay_ms = _delay_ms(log, dirty, now_ms)
    return Cleanable(first_dirty_offset, end_offset, clean_bytes, dirty_bytes, delay_ms)


def _first_dirty_offset(log: PartitionLog) -> Offset:
    """Return where compaction continues; the log start if the recorded offset is not in the log."""
    checkpointed = log.first_dirty_offset
    if checkpointed is None or not log.log_start_offset <= checkpointed <= log.log_end_offset:
        return log.log_start_offset
    return checkpointed


def _delay_ms(log: PartitionLog, dirty: list[LogSegment], now_ms: int) -> int:
    if log.config.max_compaction_lag_ms >= now_ms:
        return 0
    timestamps = [segment.first_timestamp for segment in dirty]
    oldest = min((stamp for stamp in timestamps if stamp is not None and stamp > 0), default=now_ms)
    return max(0, now_ms - log.config.max_compaction_lag_ms - oldest)
