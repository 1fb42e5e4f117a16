"""Tiered storage (KIP-405): its managers, threads, caches and quotas.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import NO_LIMIT, boolean, decimal, integer, long, optional_text, text


class RemoteKeys:
    """Tiered storage (KIP-405): its managers, threads, caches and quotas."""

    remote_log_storage_system_enable = boolean(
        "remote.log.storage.system.enable",
        False,
        "Whether tiered storage is enabled on this broker. Only then can topics set remote.storage.enable.",
    )
    remote_log_storage_manager_class_name = optional_text(
        "remote.log.storage.manager.class.name",
        "The implementation of RemoteStorageManager: not set or bundled for the built-in one, or the "
        "class of Aiven's plugin, which also selects the built-in one.",
        non_empty=True,
    )
    remote_log_storage_manager_class_path = optional_text(
        "remote.log.storage.manager.class.path", "The class path of the RemoteStorageManager. Has no effect."
    )
    remote_log_storage_manager_impl_prefix = text(
        "remote.log.storage.manager.impl.prefix",
        "rsm.config.",
        "The prefix of the keys that are passed to the RemoteStorageManager, without the prefix.",
        non_empty=True,
    )
    remote_log_metadata_manager_class_name = text(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "The implementation of RemoteLogMetadataManager: Kafka's topic-based class, or bundled for the "
        "same one.",
        non_empty=True,
    )
    remote_log_metadata_manager_class_path = optional_text(
        "remote.log.metadata.manager.class.path",
        "The class path of the RemoteLogMetadataManager. Has no effect.",
    )
    remote_log_metadata_manager_impl_prefix = text(
        "remote.log.metadata.manager.impl.prefix",
        "rlmm.config.",
        "The prefix of the keys that are passed to the RemoteLogMetadataManager, without the prefix.",
        non_empty=True,
    )
    remote_log_metadata_manager_listener_name = optional_text(
        "remote.log.metadata.manager.listener.name",
        "The name of the listener to which the RemoteLogMetadataManager connects. If it is not set, the "
        "inter-broker listener is used.",
        non_empty=True,
    )
    remote_log_metadata_custom_metadata_max_bytes = integer(
        "remote.log.metadata.custom.metadata.max.bytes",
        128,
        "The maximum size in bytes of the custom metadata of a segment. The copy of a segment with more "
        "is deleted, and the partition is no longer copied.",
        minimum=0,
    )
    remote_log_index_file_cache_total_size_bytes = long(
        "remote.log.index.file.cache.total.size.bytes",
        1_073_741_824,
        "The maximum size in bytes of the indexes of remote segments that are cached on the local disk.",
        minimum=1,
    )
    remote_log_index_file_cache_ttl_ms = long(
        "remote.log.index.file.cache.ttl.ms",
        900_000,
        "The time in milliseconds without a read after which the cached indexes of a remote segment are "
        "removed. -1 means no limit. Has no effect.",
        minimum=-1,
        internal=True,
    )
    remote_log_manager_thread_pool_size = integer(
        "remote.log.manager.thread.pool.size",
        2,
        "The former name of remote.log.manager.follower.thread.pool.size.",
        minimum=1,
    )
    remote_log_manager_copier_thread_pool_size = integer(
        "remote.log.manager.copier.thread.pool.size",
        10,
        "The number of threads that copy segments to remote storage.",
        minimum=1,
    )
    remote_log_manager_expiration_thread_pool_size = integer(
        "remote.log.manager.expiration.thread.pool.size",
        10,
        "The number of threads that delete expired segments from remote storage.",
        minimum=1,
    )
    remote_log_manager_follower_thread_pool_size = integer(
        "remote.log.manager.follower.thread.pool.size",
        2,
        "The number of threads for the remote log tasks of follower partitions.",
        minimum=1,
    )
    remote_log_manager_task_interval_ms = long(
        "remote.log.manager.task.interval.ms",
        30_000,
        "The interval in milliseconds at which segments are copied to and expired in remote storage.",
        minimum=1,
    )
    remote_log_manager_task_retry_backoff_ms = long(
        "remote.log.manager.task.retry.backoff.ms",
        500,
        "The initial time in milliseconds before a failed remote log task is retried.",
        minimum=1,
        internal=True,
    )
    remote_log_manager_task_retry_backoff_max_ms = long(
        "remote.log.manager.task.retry.backoff.max.ms",
        30_000,
        "The maximum time in milliseconds before a failed remote log task is retried.",
        minimum=1,
        internal=True,
    )
    remote_log_manager_task_retry_jitter = decimal(
        "remote.log.manager.task.retry.jitter",
        0.2,
        "The random part of the time before a failed remote log task is retried, as a share of this time.",
        minimum=0,
        maximum=0.5,
        internal=True,
    )
    remote_log_manager_copy_max_bytes_per_second = long(
        "remote.log.manager.copy.max.bytes.per.second",
        NO_LIMIT,
        "The maximum rate in bytes per second at which segments are copied to remote storage.",
        minimum=1,
    )
    remote_log_manager_copy_quota_window_num = integer(
        "remote.log.manager.copy.quota.window.num",
        11,
        "The number of samples over which the copy rate is measured.",
        minimum=1,
    )
    remote_log_manager_copy_quota_window_size_seconds = integer(
        "remote.log.manager.copy.quota.window.size.seconds",
        1,
        "The duration in seconds of one sample of the copy rate.",
        minimum=1,
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        "remote.log.manager.fetch.max.bytes.per.second",
        NO_LIMIT,
        "The maximum rate in bytes per second at which data is fetched from remote storage.",
        minimum=1,
    )
    remote_log_manager_fetch_quota_window_num = integer(
        "remote.log.manager.fetch.quota.window.num",
        11,
        "The number of samples over which the fetch rate is measured.",
        minimum=1,
    )
    remote_log_manager_fetch_quota_window_size_seconds = integer(
        "remote.log.manager.fetch.quota.window.size.seconds",
        1,
        "The duration in seconds of one sample of the fetch rate.",
        minimum=1,
    )
    remote_log_reader_threads = integer(
        "remote.log.reader.threads", 10, "The number of threads that read from remote storage.", minimum=1
    )
    remote_log_reader_max_pending_tasks = integer(
        "remote.log.reader.max.pending.tasks",
        100,
        "The maximum number of reads that wait for a reader thread. Above it, further reads fail, and the "
        "clients retry.",
        minimum=1,
    )
    remote_fetch_max_memory_bytes = long(
        "remote.fetch.max.memory.bytes",
        268_435_456,
        "The maximum memory in bytes of data from remote storage that waits to be sent to clients. "
        "Tidelog's own key.",
        minimum=1_048_576,
    )
    remote_fetch_max_wait_ms = integer(
        "remote.fetch.max.wait.ms",
        500,
        "The maximum time in milliseconds that a Fetch request waits for remote storage.",
        minimum=1,
    )
    remote_list_offsets_request_timeout_ms = long(
        "remote.list.offsets.request.timeout.ms",
        30_000,
        "The maximum time in milliseconds that a ListOffsets request waits for remote storage.",
        minimum=1,
    )
