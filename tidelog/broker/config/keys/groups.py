"""Consumer, share and streams groups, and the topic that stores committed offsets.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import INT_MAX, group_default, integer, long, short, text, text_list


class GroupKeys:
    """Consumer, share and streams groups, and the topic that stores committed offsets."""

    group_coordinator_rebalance_protocols = text_list(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "The group protocols that this broker serves, as a comma-separated list. The classic protocol is "
        "always served.",
        valid_values=(
            "consumer",
            "classic",
            "share",
            "streams",
        ),
    )
    group_coordinator_threads = integer(
        "group.coordinator.threads",
        4,
        "The number of threads of the group coordinator. Has no effect.",
        minimum=1,
    )
    group_coordinator_background_threads = integer(
        "group.coordinator.background.threads",
        2,
        "The number of threads of the group coordinator for background tasks. Has no effect.",
        minimum=1,
    )
    group_coordinator_append_linger_ms = integer(
        "group.coordinator.append.linger.ms",
        -1,
        "The time in milliseconds that the group coordinator collects commits of offsets before it writes "
        "them as one batch. With -1 a batch has the commits that arrive in one iteration of the event loop. "
        "With 0 each commit is written at once. Other records are always written at once.",
        minimum=-1,
    )
    group_coordinator_cached_buffer_max_bytes = integer(
        "group.coordinator.cached.buffer.max.bytes",
        1_048_588,
        "The maximum size in bytes of a write buffer that the group coordinator reuses. Has no effect.",
        minimum=524_288,
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3000,
        "The time in milliseconds that the coordinator waits for more members before the first rebalance "
        "of a new classic group.",
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        1_800_000,
        "The maximum session timeout in milliseconds that a member of a classic group can request.",
    )
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6000,
        "The minimum session timeout in milliseconds that a member of a classic group can request.",
    )
    group_max_member_bytes = long(
        "group.max.member.bytes",
        134_217_728,
        "The maximum memory in bytes of the members of all groups of a broker. Tidelog's own key.",
        minimum=1_048_576,
    )
    group_max_size = integer(
        "group.max.size", INT_MAX, "The maximum number of members of a classic group.", minimum=1
    )
    group_consumer_assignors = text_list(
        "group.consumer.assignors",
        ("uniform", "range"),
        "The assignors for consumer groups, as a comma-separated list of names or classes. The first one "
        "is the default.",
    )
    group_consumer_assignment_interval_ms = integer(
        "group.consumer.assignment.interval.ms",
        group_default("consumer.assignment.interval.ms"),
        "The minimum time in milliseconds between two assignments, for a consumer group.",
        minimum=0,
    )
    group_consumer_min_assignment_interval_ms = integer(
        "group.consumer.min.assignment.interval.ms",
        0,
        "The minimum assignment interval in milliseconds that can be set for a consumer group.",
        minimum=0,
    )
    group_consumer_max_assignment_interval_ms = integer(
        "group.consumer.max.assignment.interval.ms",
        15_000,
        "The maximum assignment interval in milliseconds that can be set for a consumer group.",
        minimum=0,
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        group_default("consumer.heartbeat.interval.ms"),
        "The interval in milliseconds at which members send heartbeats, for a consumer group.",
        minimum=1,
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5000,
        "The minimum heartbeat interval in milliseconds that can be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The maximum heartbeat interval in milliseconds that can be set for a consumer group.",
        minimum=1,
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        group_default("consumer.session.timeout.ms"),
        "The time in milliseconds without a heartbeat after which a member is removed, for a consumer group.",
        minimum=1,
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The minimum session timeout in milliseconds that can be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The maximum session timeout in milliseconds that can be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size", INT_MAX, "The maximum number of members of a consumer group.", minimum=1
    )
    group_consumer_migration_policy = text(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which conversions between classic and consumer groups are allowed: upgrade, downgrade, "
        "bidirectional or disabled.",
        valid_values=(
            "DISABLED",
            "DOWNGRADE",
            "UPGRADE",
            "BIDIRECTIONAL",
        ),
        ignore_case=True,
    )
    group_consumer_regex_refresh_interval_ms = integer(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "The interval in milliseconds at which subscribed regular expressions are evaluated again.",
        minimum=10_000,
        internal=True,
    )
    group_share_assignors = text_list(
        "group.share.assignors",
        ("simple",),
        "The assignors for share groups, as a list of names or classes. Only one is allowed.",
    )
    group_share_assignment_interval_ms = integer(
        "group.share.assignment.interval.ms",
        group_default("share.assignment.interval.ms"),
        "The minimum time in milliseconds between two assignments, for a share group.",
        minimum=0,
    )
    group_share_min_assignment_interval_ms = integer(
        "group.share.min.assignment.interval.ms",
        0,
        "The minimum assignment interval in milliseconds that can be set for a share group.",
        minimum=0,
    )
    group_share_max_assignment_interval_ms = integer(
        "group.share.max.assignment.interval.ms",
        15_000,
        "The maximum assignment interval in milliseconds that can be set for a share group.",
        minimum=0,
    )
    group_share_heartbeat_interval_ms = integer(
        "group.share.heartbeat.interval.ms",
        group_default("share.heartbeat.interval.ms"),
        "The interval in milliseconds at which members send heartbeats, for a share group.",
        minimum=1,
    )
    group_share_min_heartbeat_interval_ms = integer(
        "group.share.min.heartbeat.interval.ms",
        5000,
        "The minimum heartbeat interval in milliseconds that can be set for a share group.",
        minimum=1,
    )
    group_share_max_heartbeat_interval_ms = integer(
        "group.share.max.heartbeat.interval.ms",
        15_000,
        "The maximum heartbeat interval in milliseconds that can be set for a share group.",
        minimum=1,
    )
    group_share_session_timeout_ms = integer(
        "group.share.session.timeout.ms",
        group_default("share.session.timeout.ms"),
        "The time in milliseconds without a heartbeat after which a member is removed, for a share group.",
        minimum=1,
    )
    group_share_min_session_timeout_ms = integer(
        "group.share.min.session.timeout.ms",
        45_000,
        "The minimum session timeout in milliseconds that can be set for a share group.",
        minimum=1,
    )
    group_share_max_session_timeout_ms = integer(
        "group.share.max.session.timeout.ms",
        60_000,
        "The maximum session timeout in milliseconds that can be set for a share group.",
        minimum=1,
    )
    group_share_max_size = integer(
        "group.share.max.size",
        200,
        "The maximum number of members of a share group.",
        minimum=1,
        maximum=1000,
    )
    group_share_max_share_sessions = integer(
        "group.share.max.share.sessions", 2000, "The maximum number of share sessions of a broker.", minimum=1
    )
    group_share_delivery_count_limit = integer(
        "group.share.delivery.count.limit",
        group_default("share.delivery.count.limit"),
        "The maximum number of deliveries of a record to a share group.",
        minimum=2,
        maximum=10,
    )
    group_share_min_delivery_count_limit = integer(
        "group.share.min.delivery.count.limit",
        2,
        "The minimum delivery count limit that can be set for a share group.",
        minimum=2,
        maximum=5,
    )
    group_share_max_delivery_count_limit = integer(
        "group.share.max.delivery.count.limit",
        10,
        "The maximum delivery count limit that can be set for a share group.",
        minimum=5,
        maximum=25,
    )
    group_share_partition_max_record_locks = integer(
        "group.share.partition.max.record.locks",
        group_default("share.partition.max.record.locks"),
        "The maximum number of records of a partition that a share group can have acquired at the same time.",
        minimum=100,
        maximum=10_000,
    )
    group_share_min_partition_max_record_locks = integer(
        "group.share.min.partition.max.record.locks",
        100,
        "The minimum number of record locks per partition that can be set for a share group.",
        minimum=100,
        maximum=2000,
    )
    group_share_max_partition_max_record_locks = integer(
        "group.share.max.partition.max.record.locks",
        4000,
        "The maximum number of record locks per partition that can be set for a share group.",
        minimum=2000,
        maximum=10_000,
    )
    group_share_record_lock_duration_ms = integer(
        "group.share.record.lock.duration.ms",
        group_default("share.record.lock.duration.ms"),
        "The time in milliseconds for which a member of a share group acquires a record.",
        minimum=1000,
        maximum=3_600_000,
    )
    group_share_min_record_lock_duration_ms = integer(
        "group.share.min.record.lock.duration.ms",
        15_000,
        "The minimum record lock duration in milliseconds that can be set for a share group.",
        minimum=1000,
        maximum=30_000,
    )
    group_share_max_record_lock_duration_ms = integer(
        "group.share.max.record.lock.duration.ms",
        60_000,
        "The maximum record lock duration in milliseconds that can be set for a share group.",
        minimum=30_000,
        maximum=3_600_000,
    )
    group_share_initialize_retry_interval_ms = integer(
        "group.share.initialize.retry.interval.ms",
        30_000,
        "The time in milliseconds before the initialization of a share group's state is retried.",
        minimum=1,
        internal=True,
    )
    group_share_persister_class_name = text(
        "group.share.persister.class.name",
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        "The class that stores the state of share groups.",
        internal=True,
    )
    group_streams_assignment_interval_ms = integer(
        "group.streams.assignment.interval.ms",
        group_default("streams.assignment.interval.ms"),
        "The minimum time in milliseconds between two assignments, for a streams group.",
        minimum=0,
    )
    group_streams_min_assignment_interval_ms = integer(
        "group.streams.min.assignment.interval.ms",
        0,
        "The minimum assignment interval in milliseconds that can be set for a streams group.",
        minimum=0,
    )
    group_streams_max_assignment_interval_ms = integer(
        "group.streams.max.assignment.interval.ms",
        15_000,
        "The maximum assignment interval in milliseconds that can be set for a streams group.",
        minimum=0,
    )
    group_streams_heartbeat_interval_ms = integer(
        "group.streams.heartbeat.interval.ms",
        group_default("streams.heartbeat.interval.ms"),
        "The interval in milliseconds at which members send heartbeats, for a streams group.",
        minimum=1,
    )
    group_streams_min_heartbeat_interval_ms = integer(
        "group.streams.min.heartbeat.interval.ms",
        5000,
        "The minimum heartbeat interval in milliseconds that can be set for a streams group.",
        minimum=1,
    )
    group_streams_max_heartbeat_interval_ms = integer(
        "group.streams.max.heartbeat.interval.ms",
        15_000,
        "The maximum heartbeat interval in milliseconds that can be set for a streams group.",
        minimum=1,
    )
    group_streams_session_timeout_ms = integer(
        "group.streams.session.timeout.ms",
        group_default("streams.session.timeout.ms"),
        "The time in milliseconds without a heartbeat after which a member is removed, for a streams group.",
        minimum=1,
    )
    group_streams_min_session_timeout_ms = integer(
        "group.streams.min.session.timeout.ms",
        45_000,
        "The minimum session timeout in milliseconds that can be set for a streams group.",
        minimum=1,
    )
    group_streams_max_session_timeout_ms = integer(
        "group.streams.max.session.timeout.ms",
        60_000,
        "The maximum session timeout in milliseconds that can be set for a streams group.",
        minimum=1,
    )
    group_streams_initial_rebalance_delay_ms = integer(
        "group.streams.initial.rebalance.delay.ms",
        group_default("streams.initial.rebalance.delay.ms"),
        "The time in milliseconds that the coordinator waits for more members before the first rebalance "
        "of a new streams group.",
        minimum=0,
    )
    group_streams_max_size = integer(
        "group.streams.max.size", INT_MAX, "The maximum number of members of a streams group.", minimum=1
    )
    group_streams_num_standby_replicas = integer(
        "group.streams.num.standby.replicas",
        group_default("streams.num.standby.replicas"),
        "The number of standby replicas of each streams task.",
        minimum=0,
    )
    group_streams_max_standby_replicas = integer(
        "group.streams.max.standby.replicas",
        2,
        "The maximum number of standby replicas that can be set for a streams group.",
        minimum=0,
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes", 4096, "The maximum size in bytes of the metadata of a committed offset."
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5000,
        "The time in milliseconds after which an offset commit fails if it is not replicated to all "
        "in-sync replicas.",
        minimum=1,
    )
    offsets_load_buffer_size = integer(
        "offsets.load.buffer.size",
        5_242_880,
        "The number of bytes that are read at once when offsets are loaded from __consumer_offsets.",
        minimum=1,
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        10_080,
        "The time in minutes after which the committed offsets of a group without members expire.",
        minimum=1,
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        "The interval in milliseconds at which groups are checked for expired offsets.",
        minimum=1,
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        "The number of partitions of __consumer_offsets. Do not change it after the topic has been created.",
        minimum=1,
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        "The replication factor of __consumer_offsets. The topic is not created until there are enough "
        "brokers.",
        minimum=1,
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        104_857_600,
        "The segment size in bytes of __consumer_offsets.",
        minimum=1,
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec",
        0,
        "The compression codec of __consumer_offsets: 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd).",
    )
