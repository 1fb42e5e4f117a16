"""Which local segments a tiered log may drop: pure decisions, like tidelog.storage.log.retention.

While copying goes on the local limits count, and only what is in remote storage goes, or what is below
the log start. With remote.log.copy.disable the total limits count and nothing has to be remote first
(KIP-950). An empty cleanup.policy keeps records for ever, but not their local copies (KIP-1161).

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
    """What is known of the remote part of a log."""

    local_log_start_offset: Offset
    highest_offset_in_remote_storage: Offset
    is_remote_log_known: bool


class LocalRetention(NamedTuple, Generic[S]):
    """What retention asks of the local part of a log."""

    expired: list[S]
    """The oldest segments, which may go now."""
    rolls: bool
    """The active segment is due as well, but not remote: sealed, it is copied and goes later."""


def has_remote_part(topic_partition: TopicPartition, config: LogConfig, *, is_system_enabled: bool) -> bool:
    """Whether something of a log may be in remote storage: never of an internal topic's."""
    return is_system_enabled and config.remote_storage_enable and topic_partition.topic not in _NEVER_TIERED


def is_tiered(topic_partition: TopicPartition, config: LogConfig, *, is_system_enabled: bool) -> bool:
    """Whether a log is kept in remote storage: not while it is compacted.

    That may be for a while by a broker's default; what is remote by then stays a part of the log.
    """
    has_part = has_remote_part(topic_partition, config, is_system_enabled=is_system_enabled)
    return has_part and not config.is_compacted


def refuse_loss_of_tiering(
    topic_partition: TopicPartition, config: LogConfig, *, is_system_enabled: bool
) -> None:
    """ConfigError for a tiered log on a node that has no remote storage any more.

    Opened without it the log would start where its local part does, and later have the rest deleted.
    """
    if not is_system_enabled and is_tiered(topic_partition, config, is_system_enabled=True):
        allowed = f"topic {topic_partition.topic} has remote.storage.enable=true: end that or delete it first"
        raise ConfigError("remote.log.storage.system.enable", "false", allowed)


def local_retention(
    segments: list[S], config: LogConfig, bounds: LogBounds, remote: RemoteBounds, now_ms: int
) -> LocalRetention[S]:
    """The local segments of a tiered log that are too old, too many or below where the log starts.

    While nobody has said what remote storage holds, only the last of these counts (KAFKA-20732).
    """
    start = bounds._replace(log_start_offset=remote.local_log_start_offset)
    if config.remote_log_copy_disable:
        return LocalRetention(expired_segments(segments, RetentionLimits.of(config), start, now_ms), False)
    due = expired_segments(segments, _local_limits(config, remote), start, now_ms)
    remote_end = remote.highest_offset_in_remote_storage + 1
    going = 0
    for index in range(min(len(due), len(segments) - 1)):
        end = segments[index + 1].base_offset
        if end > max(remote_end, bounds.log_start_offset):
            break
        going = index + 1
    return LocalRetention(segments[:going], len(due) == len(segments) == going + 1)


def _local_limits(config: LogConfig, remote: RemoteBounds) -> RetentionLimits:
    if not remote.is_remote_log_known:
        return NO_LIMITS
    return RetentionLimits(config.effective_local_retention_ms, config.effective_local_retention_bytes)
