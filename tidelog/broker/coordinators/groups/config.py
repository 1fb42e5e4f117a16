"""The settings of the group coordinator."""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass

# The time that a new member, which cannot send heartbeats yet, may wait to join. A constant in Kafka, too.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_max_member_bytes: int
    group_coordinator_append_linger_ms: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_topic_num_partitions: int
    offsets_topic_compression_codec: int

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in milliseconds."""
        return self.offsets_retention_minutes * 60_000
