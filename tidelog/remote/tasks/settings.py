"""The settings of the RemoteLogManager, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.remote.tasks.byte_rate import UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogManagerSettings:
    """One field per key, named as the key with underscores."""

    remote_log_manager_task_interval_ms: int = 30_000
    remote_log_manager_task_retry_backoff_ms: int = 500
    remote_log_manager_task_retry_backoff_max_ms: int = 30_000
    remote_log_manager_task_retry_jitter: float = 0.2
    remote_log_metadata_custom_metadata_max_bytes: int = 128
    remote_log_manager_copier_thread_pool_size: int = 10
    remote_log_manager_expiration_thread_pool_size: int = 10
    remote_log_manager_follower_thread_pool_size: int = 2
    remote_log_reader_threads: int = 10
    remote_log_reader_max_pending_tasks: int = 100
    remote_log_manager_copy_max_bytes_per_second: int = UNLIMITED
    remote_log_manager_copy_quota_window_num: int = 11
    remote_log_manager_copy_quota_window_size_seconds: int = 1
    remote_log_manager_fetch_max_bytes_per_second: int = UNLIMITED
    remote_log_manager_fetch_quota_window_num: int = 11
    remote_log_manager_fetch_quota_window_size_seconds: int = 1
