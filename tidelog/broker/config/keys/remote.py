"""Tiered storage (KIP-405): where old segments are copied, and how fast.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import NO_LIMIT, boolean, decimal, integer, long, optional_text, text


class RemoteKeys:
    """Tiered storage (KIP-405): where old segments are copied, and how fast."""

    remote_log_storage_system_enable = boolean(
        "remote.log.storage.system.enable", False, "Whether topics may be tiered on this node."
    )
    remote_log_storage_manager_class_name = optional_text(
        "remote.log.storage.manager.class.name",
        "Class that reads and writes remote segments.",
        non_empty=True,
    )
    remote_log_storage_manager_class_path = optional_text(
        "remote.log.storage.manager.class.path", "Where the remote storage class is loaded from."
    )
    remote_log_storage_manager_impl_prefix = text(
        "remote.log.storage.manager.impl.prefix",
        "rsm.config.",
        "Prefix of the keys that go to the remote storage class.",
        non_empty=True,
    )
    remote_log_metadata_manager_class_name = text(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Class that keeps the metadata of remote segments.",
        non_empty=True,
    )
    remote_log_metadata_manager_class_path = optional_text(
        "remote.log.metadata.manager.class.path", "Where the remote metadata class is loaded from."
    )
    remote_log_metadata_manager_impl_prefix = text(
        "remote.log.metadata.manager.impl.prefix",
        "rlmm.config.",
        "Prefix of the keys that go to the remote metadata class.",
        non_empty=True,
    )
    remote_log_metadata_manager_listener_name = optional_text(
        "remote.log.metadata.manager.listener.name",
        "Listener on which the remote metadata class reaches this cluster.",
        non_empty=True,
    )
    remote_log_metadata_custom_metadata_max_bytes = integer(
        "remote.log.metadata.custom.metadata.max.bytes",
        128,
        "Most bytes that the remote storage class may add to a segment's metadata.",
        minimum=0,
    )
    remote_log_index_file_cache_total_size_bytes = long(
        "remote.log.index.file.cache.total.size.bytes",
        1_073_741_824,
        "Disk space for indexes of remote segments.",
        minimum=1,
    )
    remote_log_index_file_cache_ttl_ms = long(
        "remote.log.index.file.cache.ttl.ms",
        900_000,
        "Time for which indexes of remote segments are kept; -1 means until space is needed.",
        minimum=-1,
        internal=True,
    )
    remote_log_manager_thread_pool_size = integer(
        "remote.log.manager.thread.pool.size",
        2,
        "Older name of remote.log.manager.follower.thread.pool.size.",
        minimum=1,
    )
    remote_log_manager_copier_thread_pool_size = integer(
        "remote.log.manager.copier.thread.pool.size",
        10,
        "Threads that copy segments to remote storage.",
        minimum=1,
    )
    remote_log_manager_expiration_thread_pool_size = integer(
        "remote.log.manager.expiration.thread.pool.size",
        10,
        "Threads that remove remote segments.",
        minimum=1,
    )
    remote_log_manager_follower_thread_pool_size = integer(
        "remote.log.manager.follower.thread.pool.size",
        2,
        "Threads that follow the remote state of partitions whose leader is another node.",
        minimum=1,
    )
    remote_log_manager_task_interval_ms = long(
        "remote.log.manager.task.interval.ms",
        30_000,
        "Time between two rounds of copying and removing.",
        minimum=1,
    )
    remote_log_manager_task_retry_backoff_ms = long(
        "remote.log.manager.task.retry.backoff.ms",
        500,
        "Time before a failed remote task is tried again at first.",
        minimum=1,
        internal=True,
    )
    remote_log_manager_task_retry_backoff_max_ms = long(
        "remote.log.manager.task.retry.backoff.max.ms",
        30_000,
        "Time before a failed remote task is tried again after many failures.",
        minimum=1,
        internal=True,
    )
    remote_log_manager_task_retry_jitter = decimal(
        "remote.log.manager.task.retry.jitter",
        0.2,
        "Random share of the time before a failed remote task is tried again.",
        minimum=0,
        maximum=0.5,
        internal=True,
    )
    remote_log_manager_copy_max_bytes_per_second = long(
        "remote.log.manager.copy.max.bytes.per.second",
        NO_LIMIT,
        "Rate to which copying to remote storage is held.",
        minimum=1,
    )
    remote_log_manager_copy_quota_window_num = integer(
        "remote.log.manager.copy.quota.window.num",
        11,
        "Samples over which the copy rate is measured.",
        minimum=1,
    )
    remote_log_manager_copy_quota_window_size_seconds = integer(
        "remote.log.manager.copy.quota.window.size.seconds",
        1,
        "Time that one sample of the copy rate covers.",
        minimum=1,
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        "remote.log.manager.fetch.max.bytes.per.second",
        NO_LIMIT,
        "Rate to which reading from remote storage is held.",
        minimum=1,
    )
    remote_log_manager_fetch_quota_window_num = integer(
        "remote.log.manager.fetch.quota.window.num",
        11,
        "Samples over which the read rate is measured.",
        minimum=1,
    )
    remote_log_manager_fetch_quota_window_size_seconds = integer(
        "remote.log.manager.fetch.quota.window.size.seconds",
        1,
        "Time that one sample of the read rate covers.",
        minimum=1,
    )
    remote_log_reader_threads = integer(
        "remote.log.reader.threads", 10, "Threads that read from remote storage.", minimum=1
    )
    remote_log_reader_max_pending_tasks = integer(
        "remote.log.reader.max.pending.tasks",
        100,
        "Reads of remote storage that may wait for a thread.",
        minimum=1,
    )
    remote_fetch_max_memory_bytes = long(
        "remote.fetch.max.memory.bytes",
        268_435_456,
        "Memory of what fetches read from remote storage until it is sent. Tidelog's own key.",
        minimum=1_048_576,
    )
    remote_fetch_max_wait_ms = integer(
        "remote.fetch.max.wait.ms", 500, "Longest time for which a fetch waits for remote storage.", minimum=1
    )
    remote_list_offsets_request_timeout_ms = long(
        "remote.list.offsets.request.timeout.ms",
        30_000,
        "Longest time for which a look-up by timestamp waits for remote storage.",
        minimum=1,
    )
