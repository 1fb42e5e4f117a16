"""Which segments a log may delete: pure decisions based on the properties of the segments.

Segments are deleted as a whole, the oldest first; the first that must be kept ends the search. A segment
that reaches beyond the high watermark is kept, so that the log start never passes the high watermark.

Source: UnifiedLog.deleteOldSegments of Apache Kafka 4.3; KIP-107 (DeleteRecords).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from tidelog.protocol.ids import Offset
from tidelog.storage.config.log_config import LogConfig


class Deletable(Protocol):
    """The properties of a segment that retention depends on."""

    @property
    def base_offset(self) -> Offset:
        """The first offset that the segment may contain."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in the segment."""
        ...

    def largest_timestamp(self) -> int:
        """Return the largest record timestamp in ms."""
        ...


class LogBounds(NamedTuple):
    """The offsets that limit what may be deleted."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


class RetentionLimits(NamedTuple):
    """The maximum age in ms and size in bytes of a log; -1 means no limit."""

    retention_ms: int
    retention_bytes: int

    @classmethod
    def of(cls, config: LogConfig) -> RetentionLimits:
        """Return the limits of a whole log: none unless cleanup.policy has delete."""
        if not config.is_deleted_by_retention:
            return NO_LIMITS
        return cls(config.retention_ms, config.retention_bytes)


NO_LIMITS: Final = RetentionLimits(retention_ms=-1, retention_bytes=-1)

S = TypeVar("S", bound=Deletable)


def expired_segments(segments: list[S], limits: RetentionLimits, bounds: LogBounds, now_ms: int) -> list[S]:
    """Return the oldest segments that are below the log start, too old, or above the size limit.

    These may be all segments except an empty active one. The caller then rolls, so that the log keeps an
    active segment.
    """
    kept = _after(segments, bounds, lambda _, end: end <= bounds.log_start_offset, may_take_active=False)
    if limits.retention_bytes >= 0:
        kept = _after(kept, bounds, _over_size(kept, limits.retention_bytes))
    if limits.retention_ms >= 0:
        kept = _after(kept, bounds, _over_age(limits.retention_ms, now_ms))
    return segments[: len(segments) - len(kept)]


def _after(
    segments: list[S],
    bounds: LogBounds,
    is_expired: Callable[[S, Offset], bool],
    *,
    may_take_active: bool = True,
) -> list[S]:
    """Return `segments` without the expired ones at their start.

    `is_expired` is called with each segment and the offset at which it ends (exclusive).
    """
    for index, segment in enumerate(segments):
        is_active = index + 1 == len(segments)
        end = bounds.log_end_offset if is_active else segments[index + 1].base_offset
        if is_active and (not may_take_active or segment.size_bytes == 0):
            return segments[index:]
        if end > bounds.high_watermark or not is_expired(segment, end):
            return segments[index:]
    return []


def _over_size(segments: list[S], retention_bytes: int) -> Callable[[S, Offset], bool]:
    surplus = sum(segment.size_bytes for segment in segments) - retention_bytes

    def is_expired(segment: S, _: Offset) -> bool:
        nonlocal surplus
        if surplus < segment.size_bytes:
            return False
        surplus -= segment.size_bytes
        return True

    return is_expired


def _over_age(retention_ms: int, now_ms: int) -> Callable[[S, Offset], bool]:
    return lambda segment, _: now_ms - segment.largest_timestamp() > retention_ms
