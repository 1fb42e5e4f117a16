"""Whether the oldest snapshot of the metadata log has expired, by size or by age.

I/O: reads the first batch of the snapshot. Source: KafkaMetadataLog of Apache Kafka 4.3; KIP-630.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.raft.snapshot_format import last_contained_log_timestamp
from tidelog.broker.raft.snapshots import SnapshotFiles
from tidelog.protocol.errors import DecodeError

logger = logging.getLogger(__name__)

# The first batch of a snapshot contains the voters, which are few.
_HEAD_BYTES: Final = 64 * 1024


class SnapshotExpiration:
    """Applies metadata.max.retention.bytes and metadata.max.retention.ms; -1 means no limit."""

    def __init__(
        self, snapshots: SnapshotFiles, clock: Clock, *, retention_bytes: int, retention_ms: int
    ) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._retention_bytes = retention_bytes
        self._retention_ms = retention_ms

    def is_oldest_expired(self, log_bytes: int) -> bool:
        """Return whether the oldest of several snapshots has expired; the newest one never expires.

        `log_bytes` is the size of the log, which counts together with all snapshots.
        """
        if len(self._snapshots.ids) <= 1:
            return False
        return self._are_too_large(log_bytes) or self._is_oldest_too_old()

    def _are_too_large(self, log_bytes: int) -> bool:
        if self._retention_bytes < 0:
            return False
        sizes = (self._snapshots.size(snapshot_id) for snapshot_id in self._snapshots.ids)
        return log_bytes + sum(sizes) > self._retention_bytes

    def _is_oldest_too_old(self) -> bool:
        if self._retention_ms < 0:
            return False
        oldest = self._snapshots.ids[0]
        head = self._snapshots.read(oldest, 0, _HEAD_BYTES)
        if head is None:
            return False
        try:
            timestamp = last_contained_log_timestamp(head[0])
        except DecodeError as error:
            logger.error("Cannot read %s: %s", self._snapshots.path(oldest), error)
            return False
        return self._clock.wall_ms() - timestamp > self._retention_ms
