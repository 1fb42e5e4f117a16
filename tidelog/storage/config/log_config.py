"""A partition log's settings: one typed field per topic-level key, named as the key with underscores.

`tidelog.storage.config.topic_configs` has the allowed values of each key.
Source: org.apache.kafka.storage.internals.log.LogConfig of 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.base.config_definition import ConfigError

_HOUR_MS: Final = 3_600_000
_NO_LIMIT: Final = 2**63 - 1
_FOLLOW_TOTAL_RETENTION: Final = -2
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic's logs, with Kafka's names, units and defaults."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * _HOUR_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _NO_LIMIT
    flush_ms: int = _NO_LIMIT
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = _FOLLOW_TOTAL_RETENTION
    local_retention_ms: int = _FOLLOW_TOTAL_RETENTION
    max_compaction_lag_ms: int = _NO_LIMIT
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = _HOUR_MS
    message_timestamp_before_max_ms: int = _NO_LIMIT
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_copy_lag_bytes: int = _NONE
    remote_copy_lag_ms: int = 0
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * _HOUR_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * 24 * _HOUR_MS
    unclean_leader_election_enable: bool = False

    def check_compaction_lags(self) -> None:
        """Raise ConfigError if max.compaction.lag.ms is below min.compaction.lag.ms."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            allowed = f"must not be more than max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            raise ConfigError("min.compaction.lag.ms", self.min_compaction_lag_ms, allowed)

    @property
    def is_compacted(self) -> bool:
        """Whether cleaning keeps the latest value of each key."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment is sealed: segment.ms, or the longest compaction lag if that is shorter."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def is_deleted_by_retention(self) -> bool:
        """Whether whole segments are removed by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def uses_log_append_time(self) -> bool:
        """Whether records get the broker's time, not the producer's."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def effective_local_retention_ms(self) -> int:
        """The age limit in ms of the local part of a tiered log: its own, or with -2 that of the log."""
        is_own = self.local_retention_ms != _FOLLOW_TOTAL_RETENTION
        return self.local_retention_ms if is_own else self.retention_ms

    @property
    def effective_local_retention_bytes(self) -> int:
        """The size limit in bytes of the local part of a tiered log: its own, or with -2 that of the log."""
        is_own = self.local_retention_bytes != _FOLLOW_TOTAL_RETENTION
        return self.local_retention_bytes if is_own else self.retention_bytes

    @property
    def effective_remote_copy_lag_ms(self) -> int:
        """The age in ms at which a segment must be copied: its own, or with -1 that of local retention."""
        is_own = self.remote_copy_lag_ms != _NONE
        return self.remote_copy_lag_ms if is_own else self.effective_local_retention_ms

    @property
    def effective_remote_copy_lag_bytes(self) -> int:
        """The bytes that may follow a segment before it must be copied; with -1 those of local retention."""
        is_own = self.remote_copy_lag_bytes != _NONE
        return self.remote_copy_lag_bytes if is_own else self.effective_local_retention_bytes
