"""The settings of the share coordinator."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_load_buffer_size: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_write_timeout_ms: int
    share_coordinator_append_linger_ms: int
