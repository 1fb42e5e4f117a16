"""Which segments of a leader's log are copied to remote storage next. Pure.

A segment may be copied if it is sealed and completely below the last stable offset. Remote records are
therefore committed and their transactions decided, and never have to be removed again. Segments are copied in
order without gaps, so that one offset describes how far the log is in remote storage.

With KIP-1241 a copy waits, so that recent records are not stored twice: until the segment is old enough
(remote.copy.lag.ms), or until enough bytes follow it (remote.copy.lag.bytes).

Source: RemoteLogManager.RLMCopyTask of Apache Kafka 4.3 and 4.4; KIP-405, KIP-1241, KAFKA-20633.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset
from tidelog.remote.tasks.local_segments import LocalSegment
from tidelog.storage.config.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class CopyLag:
    """The lag of copies behind the log; 0 means no wait, None means that the limit is never reached."""

    lag_ms: int | None = 0
    lag_bytes: int | None = 0

    @classmethod
    def of(cls, config: LogConfig) -> CopyLag:
        """Return the lags of a topic; -1 means the limit of local retention, which may be unlimited."""
        lag_ms, lag_bytes = config.effective_remote_copy_lag_ms, config.effective_remote_copy_lag_bytes
        return cls(lag_ms if lag_ms >= 0 else None, lag_bytes if lag_bytes >= 0 else None)

    def allows_copy(self, segment: LocalSegment, newer_bytes: int, now_ms: int) -> bool:
        """Return whether `segment` has waited long enough; `newer_bytes` of the log follow it."""
        lag_ms, lag_bytes = self.lag_ms, self.lag_bytes
        if lag_ms == 0 or lag_bytes == 0:
            return True
        if lag_ms is not None and now_ms - segment.largest_timestamp_ms >= lag_ms:
            return True
        return lag_bytes is not None and newer_bytes >= lag_bytes


def segments_to_copy(
    segments: Sequence[LocalSegment],
    *,
    copied_offset: Offset,
    log_start_offset: Offset,
    last_stable_offset: Offset,
    lag: CopyLag,
    now_ms: int,
) -> list[LocalSegment]:
    """Return the segments of a log that are copied now, in order; the last one of `segments` is active.

    `copied_offset` is the last offset in remote storage, -1 if there is none. A segment that begins before it
    and ends after it is copied completely: another leader's segments had other boundaries.
    """
    first_offset = max(copied_offset + 1, log_start_offset)
    newer_bytes = sum(segment.size_bytes for segment in segments)
    chosen = []
    for segment in segments[:-1]:
        newer_bytes -= segment.size_bytes
        if segment.end_offset <= first_offset:
            continue
        if segment.end_offset > last_stable_offset or not lag.allows_copy(segment, newer_bytes, now_ms):
            break
        chosen.append(segment)
    return chosen


class CopyBacklog(NamedTuple):
    """The sealed segments that are not in remote storage."""

    segments: int
    size_bytes: int


def copy_backlog(segments: Sequence[LocalSegment], copied_offset: Offset) -> CopyBacklog:
    """Return the number and size of the segments that wait to be copied (KIP-963: copy lag)."""
    waiting = [segment.size_bytes for segment in segments[:-1] if segment.end_offset > copied_offset + 1]
    return CopyBacklog(len(waiting), sum(waiting))
