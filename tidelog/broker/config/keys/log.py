"""The directories of logs, and the defaults of topic configs.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
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
    topic_default,
)


class LogKeys:
    """The directories of logs, and the defaults of topic configs."""

    log_dir = text_list(
        "log.dir", ("/tmp/kafka-logs",), "The directory of the logs. It is used only if log.dirs is not set."
    )
    log_dirs = optional_text_list(
        "log.dirs",
        "The directories of the logs, as a comma-separated list. If it is not set, log.dir is used.",
    )
    cordoned_log_dirs = text_list(
        "cordoned.log.dirs",
        (),
        "The log directories in which no new partitions are created, as a comma-separated list; * means all.",
    )
    log_dir_failure_timeout_ms = long(
        "log.dir.failure.timeout.ms",
        30_000,
        "The time in milliseconds after which a broker stops if it cannot report a failed log directory "
        "to the controller.",
        minimum=1,
    )
    num_recovery_threads_per_data_dir = integer(
        "num.recovery.threads.per.data.dir",
        2,
        "The number of threads per log directory that recover logs at the start and flush them at the "
        "stop. Has no effect.",
        minimum=1,
    )
    log_segment_bytes = integer(
        "log.segment.bytes",
        topic_default("segment.bytes"),
        "The default of the topic config segment.bytes.",
        minimum=1_048_576,
    )
    log_roll_ms = optional_long(
        "log.roll.ms", "The default of the topic config segment.ms. If it is not set, log.roll.hours is used."
    )
    log_roll_hours = integer(
        "log.roll.hours",
        168,
        "The default of the topic config segment.ms, in hours. log.roll.ms overrides it.",
        minimum=1,
    )
    log_roll_jitter_ms = optional_long(
        "log.roll.jitter.ms",
        "The default of the topic config segment.jitter.ms. If it is not set, log.roll.jitter.hours is used.",
    )
    log_roll_jitter_hours = integer(
        "log.roll.jitter.hours",
        0,
        "The default of the topic config segment.jitter.ms, in hours. log.roll.jitter.ms overrides it.",
        minimum=0,
    )
    log_retention_ms = optional_long(
        "log.retention.ms",
        "The default of the topic config retention.ms; -1 means no limit. If it is not set, "
        "log.retention.minutes is used.",
    )
    log_retention_minutes = optional_integer(
        "log.retention.minutes",
        "The default of the topic config retention.ms, in minutes. If it is not set, log.retention.hours "
        "is used. log.retention.ms overrides it.",
    )
    log_retention_hours = integer(
        "log.retention.hours",
        168,
        "The default of the topic config retention.ms, in hours. log.retention.minutes and "
        "log.retention.ms override it.",
    )
    log_retention_bytes = long(
        "log.retention.bytes",
        topic_default("retention.bytes"),
        "The default of the topic config retention.bytes.",
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        "The interval in milliseconds at which logs are checked for segments to delete.",
        minimum=1,
    )
    log_cleanup_policy = text_list(
        "log.cleanup.policy",
        topic_default("cleanup.policy"),
        "The default of the topic config cleanup.policy.",
        valid_values=(
            "compact",
            "delete",
        ),
    )
    log_index_size_max_bytes = integer(
        "log.index.size.max.bytes",
        topic_default("segment.index.bytes"),
        "The default of the topic config segment.index.bytes.",
        minimum=4,
    )
    log_index_interval_bytes = integer(
        "log.index.interval.bytes",
        topic_default("index.interval.bytes"),
        "The default of the topic config index.interval.bytes.",
        minimum=0,
    )
    log_flush_interval_messages = long(
        "log.flush.interval.messages",
        topic_default("flush.messages"),
        "The default of the topic config flush.messages.",
        minimum=1,
    )
    log_flush_interval_ms = optional_long(
        "log.flush.interval.ms",
        "The default of the topic config flush.ms. If it is not set, log.flush.scheduler.interval.ms is "
        "used.",
    )
    log_flush_scheduler_interval_ms = long(
        "log.flush.scheduler.interval.ms",
        NO_LIMIT,
        "The interval in milliseconds at which logs are checked for records to flush.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "The interval in milliseconds at which the recovery points of all logs are written to "
        "recovery-point-offset-checkpoint.",
        minimum=0,
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "The interval in milliseconds at which the log start offsets of all logs are written to "
        "log-start-offset-checkpoint.",
        minimum=0,
    )
    log_segment_delete_delay_ms = long(
        "log.segment.delete.delay.ms",
        topic_default("file.delete.delay.ms"),
        "The default of the topic config file.delete.delay.ms.",
        minimum=0,
    )
    log_preallocate = boolean(
        "log.preallocate",
        topic_default("preallocate"),
        "The default of the topic config preallocate. Has no effect.",
    )
    log_message_timestamp_type = text(
        "log.message.timestamp.type",
        topic_default("message.timestamp.type"),
        "The default of the topic config message.timestamp.type.",
        valid_values=(
            "CreateTime",
            "LogAppendTime",
        ),
    )
    log_message_timestamp_before_max_ms = long(
        "log.message.timestamp.before.max.ms",
        topic_default("message.timestamp.before.max.ms"),
        "The default of the topic config message.timestamp.before.max.ms.",
        minimum=0,
    )
    log_message_timestamp_after_max_ms = long(
        "log.message.timestamp.after.max.ms",
        topic_default("message.timestamp.after.max.ms"),
        "The default of the topic config message.timestamp.after.max.ms.",
        minimum=0,
    )
    log_local_retention_ms = long(
        "log.local.retention.ms",
        topic_default("local.retention.ms"),
        "The default of the topic config local.retention.ms.",
        minimum=-2,
    )
    log_local_retention_bytes = long(
        "log.local.retention.bytes",
        topic_default("local.retention.bytes"),
        "The default of the topic config local.retention.bytes.",
        minimum=-2,
    )
    log_remote_copy_lag_ms = long(
        "log.remote.copy.lag.ms",
        topic_default("remote.copy.lag.ms"),
        "The default of the topic config remote.copy.lag.ms.",
        minimum=-1,
    )
    log_remote_copy_lag_bytes = long(
        "log.remote.copy.lag.bytes",
        topic_default("remote.copy.lag.bytes"),
        "The default of the topic config remote.copy.lag.bytes.",
        minimum=-1,
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "The delay in milliseconds between the start and the first run of periodic log tasks. Has no effect.",
        minimum=0,
        internal=True,
    )
    log_cleaner_enable = boolean(
        "log.cleaner.enable", True, "Whether logs with the cleanup policy compact are compacted."
    )
    log_cleaner_threads = integer(
        "log.cleaner.threads", 1, "The number of threads that compact logs.", minimum=0
    )
    log_cleaner_io_max_bytes_per_second = decimal(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "The maximum rate in bytes per second at which all cleaner threads together read and write.",
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "The total memory in bytes of all cleaner threads for the map of keys to offsets.",
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        524_288,
        "The total memory in bytes of all cleaner threads for reading and writing.",
        minimum=0,
    )
    log_cleaner_io_buffer_load_factor = decimal(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "The maximum load factor of the map of keys to offsets. A higher value compacts more of a log in "
        "one round.",
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        "The time in milliseconds that a cleaner thread waits if no log needs compaction.",
        minimum=0,
    )
    log_cleaner_min_cleanable_ratio = decimal(
        "log.cleaner.min.cleanable.ratio",
        topic_default("min.cleanable.dirty.ratio"),
        "The default of the topic config min.cleanable.dirty.ratio.",
        minimum=0,
        maximum=1,
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        topic_default("delete.retention.ms"),
        "The default of the topic config delete.retention.ms.",
        minimum=0,
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        topic_default("min.compaction.lag.ms"),
        "The default of the topic config min.compaction.lag.ms.",
        minimum=0,
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        topic_default("max.compaction.lag.ms"),
        "The default of the topic config max.compaction.lag.ms.",
        minimum=1,
    )
    message_max_bytes = integer(
        "message.max.bytes",
        topic_default("max.message.bytes"),
        "The default of the topic config max.message.bytes.",
        minimum=0,
    )
    compression_type = text(
        "compression.type",
        topic_default("compression.type"),
        "The default of the topic config compression.type.",
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
        topic_default("compression.gzip.level"),
        "The default of the topic config compression.gzip.level.",
        minimum=1,
        maximum=9,
        extra_values=(-1,),
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        topic_default("compression.lz4.level"),
        "The default of the topic config compression.lz4.level.",
        minimum=1,
        maximum=17,
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        topic_default("compression.zstd.level"),
        "The default of the topic config compression.zstd.level.",
        minimum=-131_072,
        maximum=22,
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        topic_default("min.insync.replicas"),
        "The default of the topic config min.insync.replicas.",
        minimum=1,
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        86_400_000,
        "The time in milliseconds after its last write after which a partition removes the state of a "
        "producer.",
        minimum=1,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "The interval in milliseconds at which partitions are checked for expired producer state.",
        minimum=1,
        internal=True,
    )
