"""The settings of the RemoteLogManager. Their defaults and bounds are defined with the broker's keys."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogManagerSettings:
    """One field for each key, named like the key with underscores."""

    remote_log_manager_task_interval_ms: int
    remote_log_manager_task_retry_backoff_ms: int
    remote_log_manager_task_retry_backoff_max_ms: int
    remote_log_manager_task_retry_jitter: float
    remote_log_metadata_custom_metadata_max_bytes: int
    remote_log_manager_copier_thread_pool_size: int
    remote_log_manager_expiration_thread_pool_size: int
    remote_log_manager_follower_thread_pool_size: int
    remote_log_reader_threads: int
    remote_log_reader_max_pending_tasks: int
    remote_log_manager_copy_max_bytes_per_second: int
    remote_log_manager_copy_quota_window_num: int
    remote_log_manager_copy_quota_window_size_seconds: int
    remote_log_manager_fetch_max_bytes_per_second: int
    remote_log_manager_fetch_quota_window_num: int
    remote_log_manager_fetch_quota_window_size_seconds: int
