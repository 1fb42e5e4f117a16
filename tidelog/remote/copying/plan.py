"""Which segments of a leader's log go to remote storage next: pure decisions.

A segment may go when it is sealed and wholly below the last stable offset: what is remote is committed and
decided, so that nobody ever has to take it back. Segments go in their order, and none is left out: what is
remote has no holes, and one offset tells how far it reaches.

KIP-1241 lets a copy wait, so that young data is not stored twice: until the segment is old enough
(remote.copy.lag.ms) or enough bytes came behind it (remote.copy.lag.bytes).

Source: RemoteLogManager.RLMCopyTask of Apache Kafka 4.3 and 4.4; KIP-405, KIP-1241, KAFKA-20633.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.remote.tasks.local_segments import LocalSegment
from tidelog.storage.config.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class CopyLag:
    """How long copies wait; a limit of 0 lets all go at once, None is no limit that could be reached."""

    lag_ms: int | None = 0
    lag_bytes: int | None = 0

    @classmethod
    def of(cls, config: LogConfig) -> CopyLag:
        """The lags of a topic; -1 stands for what local retention keeps, which may be everything."""
        lag_ms, lag_bytes = config.effective_remote_copy_lag_ms, config.effective_remote_copy_lag_bytes
        return cls(lag_ms if lag_ms >= 0 else None, lag_bytes if lag_bytes >= 0 else None)

    def lets_go(self, segment: LocalSegment, newer_bytes: int, now_ms: int) -> bool:
        """Whether a segment with `newer_bytes` of log behind it has waited long enough."""
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
    """Those of a log's `segments` (the last one is active) that are to be copied now, in their order.

    `copied_offset` is the last one in remote storage, -1 when nothing is. A segment that begins before it
    and ends behind it is copied whole: another leader had its segments end elsewhere.
    """
    wanted_from = max(copied_offset + 1, log_start_offset)
    newer_bytes = sum(segment.size_bytes for segment in segments)
    chosen = []
    for segment in segments[:-1]:
        newer_bytes -= segment.size_bytes
        if segment.end_offset <= wanted_from:
            continue
        if segment.end_offset > last_stable_offset or not lag.lets_go(segment, newer_bytes, now_ms):
            break
        chosen.append(segment)
    return chosen


class CopyBacklog(NamedTuple):
    """What is sealed and not remote."""

    segments: int
    size_bytes: int


def copy_backlog(segments: Sequence[LocalSegment], copied_offset: Offset) -> CopyBacklog:
    """What waits to be copied, for whatever reason (KIP-963: copy lag)."""
    waiting = [segment.size_bytes for segment in segments[:-1] if segment.end_offset > copied_offset + 1]
    return CopyBacklog(len(waiting), sum(waiting))
