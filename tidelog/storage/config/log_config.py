"""A partition log's settings: one typed field per topic-level key, named as the key with underscores.

`tidelog.storage.config.topic_configs` defines the default and the allowed values of each key.
Source: org.apache.kafka.storage.internals.log.LogConfig of 4.3.1.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.storage.config.topic_source import TopicSource

_FOLLOW_TOTAL_RETENTION: Final = -2
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic's logs, with the names and units of the topic keys."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_copy_lag_bytes: int
    remote_copy_lag_ms: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    tidelog_source: TopicSource | None = None
    """The topic whose remote segments this one reads by reference."""

    def check_compaction_lags(self) -> None:
        """Raise ConfigError if max.compaction.lag.ms is below min.compaction.lag.ms."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            allowed = f"must not be more than max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            raise ConfigError("min.compaction.lag.ms", self.min_compaction_lag_ms, allowed)

    @property
    def is_mounted(self) -> bool:
        """Whether the topic shows a topic of another cluster, and accepts no records."""
        return self.tidelog_source is not None and self.tidelog_source.mount is not None

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
