"""The settings of the group coordinator, with Kafka's keys and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INT_MAX: Final = 2**31 - 1

# How long a new member, which cannot send heartbeats yet, may wait to join. A constant in Kafka, too.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000

_LOWEST: Final = {
    "group_max_size": 1,
    "group_max_member_bytes": 1_048_576,
    "offsets_load_buffer_size": 1,
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1,
    "offsets_commit_timeout_ms": 1,
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "offsets_topic_segment_bytes": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings; each field is the Kafka key of the same name with underscores for dots.

    `group_max_member_bytes` is Tidelog's own. Errors: ValueError that names key, value and bound.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = INT_MAX
    group_max_member_bytes: int = 128 * 1024 * 1024
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5 * 1024 * 1024
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 * 1024 * 1024
    offsets_topic_compression_codec: int = 0

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value < lowest:
                raise ValueError(f"{name.replace('_', '.')} is {value}; it must be at least {lowest}")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                f"group.min.session.timeout.ms is {self.group_min_session_timeout_ms}; it must not be above "
                f"group.max.session.timeout.ms {self.group_max_session_timeout_ms}"
            )

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in milliseconds."""
        return self.offsets_retention_minutes * 60_000
