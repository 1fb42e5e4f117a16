"""Where logs are kept, and the defaults of topics that do not set their own.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import (
    NO_LIMIT,
    boolean,
    decimal,
    integer,
    long,
    optional_integer,
    optional_long,
    optional_text_list,
    text,
    text_list,
)


class LogKeys:
    """Where logs are kept, and the defaults of topics that do not set their own."""

    log_dir = text_list("log.dir", ("/tmp/kafka-logs",), "Directory of the logs when log.dirs is not set.")
    log_dirs = optional_text_list("log.dirs", "Directories of the logs, separated by commas.")
    cordoned_log_dirs = text_list(
        "cordoned.log.dirs", (), "Directories that take no new partitions; * means all."
    )
    log_dir_failure_timeout_ms = long(
        "log.dir.failure.timeout.ms",
        30_000,
        "Time after which a node stops when it cannot report a failed log directory.",
        minimum=1,
    )
    num_recovery_threads_per_data_dir = integer(
        "num.recovery.threads.per.data.dir",
        2,
        "Threads per directory that recover logs at start and flush them at stop.",
        minimum=1,
    )
    log_segment_bytes = integer(
        "log.segment.bytes", 1_073_741_824, "Default of the topic config segment.bytes.", minimum=1_048_576
    )
    log_roll_ms = optional_long(
        "log.roll.ms", "Default of the topic config segment.ms; log.roll.hours counts when it is not set."
    )
    log_roll_hours = integer(
        "log.roll.hours", 168, "Default of the topic config segment.ms, in hours.", minimum=1
    )
    log_roll_jitter_ms = optional_long(
        "log.roll.jitter.ms",
        "Default of the topic config segment.jitter.ms; log.roll.jitter.hours counts when it is not set.",
    )
    log_roll_jitter_hours = integer(
        "log.roll.jitter.hours", 0, "Default of the topic config segment.jitter.ms, in hours.", minimum=0
    )
    log_retention_ms = optional_long(
        "log.retention.ms",
        "Default of the topic config retention.ms; log.retention.minutes counts when it is not set.",
    )
    log_retention_minutes = optional_integer(
        "log.retention.minutes",
        "Default of the topic config retention.ms, in minutes; log.retention.hours counts when not set.",
    )
    log_retention_hours = integer(
        "log.retention.hours", 168, "Default of the topic config retention.ms, in hours."
    )
    log_retention_bytes = long("log.retention.bytes", -1, "Default of the topic config retention.bytes.")
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        "Time between two looks for segments that retention removes.",
        minimum=1,
    )
    log_cleanup_policy = text_list(
        "log.cleanup.policy",
        ("delete",),
        "Default of the topic config cleanup.policy.",
        valid_values=(
            "compact",
            "delete",
        ),
    )
    log_index_size_max_bytes = integer(
        "log.index.size.max.bytes", 10_485_760, "Default of the topic config segment.index.bytes.", minimum=4
    )
    log_index_interval_bytes = integer(
        "log.index.interval.bytes", 4096, "Default of the topic config index.interval.bytes.", minimum=0
    )
    log_flush_interval_messages = long(
        "log.flush.interval.messages", NO_LIMIT, "Default of the topic config flush.messages.", minimum=1
    )
    log_flush_interval_ms = optional_long(
        "log.flush.interval.ms",
        "Default of the topic config flush.ms; log.flush.scheduler.interval.ms counts when it is not set.",
    )
    log_flush_scheduler_interval_ms = long(
        "log.flush.scheduler.interval.ms",
        NO_LIMIT,
        "Time between two looks for logs that must be forced to disk.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "Time between two writes of the recovery points.",
        minimum=0,
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "Time between two writes of the log start offsets.",
        minimum=0,
    )
    log_segment_delete_delay_ms = long(
        "log.segment.delete.delay.ms", 60_000, "Default of the topic config file.delete.delay.ms.", minimum=0
    )
    log_preallocate = boolean("log.preallocate", False, "Default of the topic config preallocate.")
    log_message_timestamp_type = text(
        "log.message.timestamp.type",
        "CreateTime",
        "Default of the topic config message.timestamp.type.",
        valid_values=(
            "CreateTime",
            "LogAppendTime",
        ),
    )
    log_message_timestamp_before_max_ms = long(
        "log.message.timestamp.before.max.ms",
        NO_LIMIT,
        "Default of the topic config message.timestamp.before.max.ms.",
        minimum=0,
    )
    log_message_timestamp_after_max_ms = long(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        "Default of the topic config message.timestamp.after.max.ms.",
        minimum=0,
    )
    log_local_retention_ms = long(
        "log.local.retention.ms", -2, "Default of the topic config local.retention.ms.", minimum=-2
    )
    log_local_retention_bytes = long(
        "log.local.retention.bytes", -2, "Default of the topic config local.retention.bytes.", minimum=-2
    )
    log_remote_copy_lag_ms = long(
        "log.remote.copy.lag.ms", 0, "Default of the topic config remote.copy.lag.ms.", minimum=-1
    )
    log_remote_copy_lag_bytes = long(
        "log.remote.copy.lag.bytes", -1, "Default of the topic config remote.copy.lag.bytes.", minimum=-1
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "Time after the start at which periodic log work begins.",
        minimum=0,
        internal=True,
    )
    log_cleaner_enable = boolean("log.cleaner.enable", True, "Whether logs are compacted at all.")
    log_cleaner_threads = integer("log.cleaner.threads", 1, "Threads that compact logs.", minimum=0)
    log_cleaner_io_max_bytes_per_second = decimal(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "Rate to which reading and writing of compaction are held.",
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "Memory of all compaction threads for remembering keys.",
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        524_288,
        "Memory of all compaction threads for reading and writing.",
        minimum=0,
    )
    log_cleaner_io_buffer_load_factor = decimal(
        "log.cleaner.io.buffer.load.factor", 0.9, "Share of the memory for keys that may be filled."
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms", 15_000, "Time to wait when no log needs compaction.", minimum=0
    )
    log_cleaner_min_cleanable_ratio = decimal(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "Default of the topic config min.cleanable.dirty.ratio.",
        minimum=0,
        maximum=1,
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        86_400_000,
        "Default of the topic config delete.retention.ms.",
        minimum=0,
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Default of the topic config min.compaction.lag.ms.",
        minimum=0,
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        NO_LIMIT,
        "Default of the topic config max.compaction.lag.ms.",
        minimum=1,
    )
    message_max_bytes = integer(
        "message.max.bytes", 1_048_588, "Default of the topic config max.message.bytes.", minimum=0
    )
    compression_type = text(
        "compression.type",
        "producer",
        "Default of the topic config compression.type.",
        valid_values=(
            "uncompressed",
            "zstd",
            "lz4",
            "snappy",
            "gzip",
            "producer",
        ),
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        "Default of the topic config compression.gzip.level.",
        minimum=1,
        maximum=9,
        extra_values=(-1,),
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        9,
        "Default of the topic config compression.lz4.level.",
        minimum=1,
        maximum=17,
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        3,
        "Default of the topic config compression.zstd.level.",
        minimum=-131_072,
        maximum=22,
    )
    min_insync_replicas = integer(
        "min.insync.replicas", 1, "Default of the topic config min.insync.replicas.", minimum=1
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        86_400_000,
        "Time without a write after which a producer's state is forgotten.",
        minimum=1,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "Time between two looks for producers to forget.",
        minimum=1,
        internal=True,
    )
