"""Which local segments a tiered log may delete: pure decisions, like tidelog.storage.log.retention.

While segments are copied, the local limits apply. Only segments in remote storage or below the log start are
deleted. With remote.log.copy.disable the total limits apply, also to segments that were not copied (KIP-950).
An empty cleanup.policy keeps records without limit, but not their local copies (KIP-1161).

Source: UnifiedLog.deletableSegments and deleteOldSegments of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from tidelog.base.config_definition import ConfigError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.retention import NO_LIMITS, Deletable, LogBounds, RetentionLimits, expired_segments

_NEVER_TIERED = frozenset(
    {
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)

S = TypeVar("S", bound=Deletable)


class RemoteBounds(NamedTuple):
    """The known state of the remote part of a log."""

    local_log_start_offset: Offset
    highest_offset_in_remote_storage: Offset
    is_remote_log_known: bool


class LocalRetention(NamedTuple, Generic[S]):
    """The changes of the local part of a log that retention requires."""

    expired: list[S]
    """The oldest segments, which may be deleted now."""
    rolls: bool
    """The active segment has expired but is not in remote storage: it must be sealed to be copied."""


def has_remote_part(topic_partition: TopicPartition, config: LogConfig, *, is_system_enabled: bool) -> bool:
    """Return whether a part of a log may be in remote storage; never that of an internal topic."""
    return is_system_enabled and config.remote_storage_enable and topic_partition.topic not in _NEVER_TIERED


def is_tiered(topic_partition: TopicPartition, config: LogConfig, *, is_system_enabled: bool) -> bool:
    """Return whether a log is stored in remote storage: not while it is compacted.

    A broker's default may make it compacted for some time; its remote part then remains a part of the log.
    """
    has_part = has_remote_part(topic_partition, config, is_system_enabled=is_system_enabled)
    return has_part and not config.is_compacted


def refuse_loss_of_tiering(
    topic_partition: TopicPartition, config: LogConfig, *, is_system_enabled: bool
) -> None:
    """Raise ConfigError for a tiered log on a node that no longer has remote storage.

    Without it the log would start where its local part starts, and its remote part would be deleted later.
    """
    if not is_system_enabled and is_tiered(topic_partition, config, is_system_enabled=True):
        allowed = f"topic {topic_partition.topic} has remote.storage.enable=true: disable or delete it"
        raise ConfigError("remote.log.storage.system.enable", "false", allowed)


def local_retention(
    segments: list[S], config: LogConfig, bounds: LogBounds, remote: RemoteBounds, now_ms: int
) -> LocalRetention[S]:
    """Return the local segments of a tiered log that are too old, too many or below the log start.

    Until the highest remote offset is reported, only those below the log start may be deleted (KAFKA-20732).
    """
    start = bounds._replace(log_start_offset=remote.local_log_start_offset)
    if config.remote_log_copy_disable:
        return LocalRetention(expired_segments(segments, RetentionLimits.of(config), start, now_ms), False)
    due = expired_segments(segments, _local_limits(config, remote), start, now_ms)
    remote_end = remote.highest_offset_in_remote_storage + 1
    deletable_count = 0
    for index in range(min(len(due), len(segments) - 1)):
        end = segments[index + 1].base_offset
        if end > max(remote_end, bounds.log_start_offset):
            break
        deletable_count = index + 1
    return LocalRetention(segments[:deletable_count], len(due) == len(segments) == deletable_count + 1)


def _local_limits(config: LogConfig, remote: RemoteBounds) -> RetentionLimits:
    if not remote.is_remote_log_known:
        return NO_LIMITS
    return RetentionLimits(config.effective_local_retention_ms, config.effective_local_retention_bytes)
