"""Consumer, share and streams groups, and the topic that keeps committed offsets.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import INT_MAX, integer, long, short, text, text_list


class GroupKeys:
    """Consumer, share and streams groups, and the topic that keeps committed offsets."""

    group_coordinator_rebalance_protocols = text_list(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "Group protocols that are served.",
        valid_values=(
            "consumer",
            "classic",
            "share",
            "streams",
        ),
    )
    group_coordinator_threads = integer(
        "group.coordinator.threads", 4, "Threads of the group coordinator.", minimum=1
    )
    group_coordinator_background_threads = integer(
        "group.coordinator.background.threads",
        2,
        "Threads of the group coordinator for work in the background.",
        minimum=1,
    )
    group_coordinator_append_linger_ms = integer(
        "group.coordinator.append.linger.ms",
        -1,
        "Time for which the coordinator gathers records before it writes them; -1 adapts by itself.",
        minimum=-1,
    )
    group_coordinator_cached_buffer_max_bytes = integer(
        "group.coordinator.cached.buffer.max.bytes",
        1_048_588,
        "Largest write buffer that the coordinator keeps for later.",
        minimum=524_288,
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms", 3000, "Time for which a new classic group waits for more members."
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms", 1_800_000, "Longest session timeout of a classic member."
    )
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms", 6000, "Shortest session timeout of a classic member."
    )
    group_max_member_bytes = long(
        "group.max.member.bytes",
        134_217_728,
        "Memory that the members of all classic groups of a node may keep. Tidelog's own key.",
        minimum=1_048_576,
    )
    group_max_size = integer("group.max.size", INT_MAX, "Most members of a classic group.", minimum=1)
    group_consumer_assignors = text_list(
        "group.consumer.assignors",
        ("uniform", "range"),
        "Assignors of consumer groups, the first being the default.",
    )
    group_consumer_assignment_interval_ms = integer(
        "group.consumer.assignment.interval.ms",
        1000,
        "Shortest time between two assignments of a consumer group.",
        minimum=0,
    )
    group_consumer_min_assignment_interval_ms = integer(
        "group.consumer.min.assignment.interval.ms",
        0,
        "Lowest value that a group may choose for its assignment interval.",
        minimum=0,
    )
    group_consumer_max_assignment_interval_ms = integer(
        "group.consumer.max.assignment.interval.ms",
        15_000,
        "Highest value that a group may choose for its assignment interval.",
        minimum=0,
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        5000,
        "Time between two heartbeats of a consumer group member.",
        minimum=1,
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5000,
        "Lowest value that a group may choose for its heartbeat interval.",
        minimum=1,
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "Highest value that a group may choose for its heartbeat interval.",
        minimum=1,
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        45_000,
        "Time without a heartbeat after which a consumer group member is removed.",
        minimum=1,
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "Lowest value that a group may choose for its session timeout.",
        minimum=1,
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "Highest value that a group may choose for its session timeout.",
        minimum=1,
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size", INT_MAX, "Most members of a consumer group.", minimum=1
    )
    group_consumer_migration_policy = text(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether groups may turn from classic to consumer groups and back.",
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
        "Time between two evaluations of subscribed patterns.",
        minimum=10_000,
        internal=True,
    )
    group_share_assignors = text_list("group.share.assignors", ("simple",), "Assignors of share groups.")
    group_share_assignment_interval_ms = integer(
        "group.share.assignment.interval.ms",
        1000,
        "Shortest time between two assignments of a share group.",
        minimum=0,
    )
    group_share_min_assignment_interval_ms = integer(
        "group.share.min.assignment.interval.ms",
        0,
        "Lowest value that a share group may choose for its assignment interval.",
        minimum=0,
    )
    group_share_max_assignment_interval_ms = integer(
        "group.share.max.assignment.interval.ms",
        15_000,
        "Highest value that a share group may choose for its assignment interval.",
        minimum=0,
    )
    group_share_heartbeat_interval_ms = integer(
        "group.share.heartbeat.interval.ms",
        5000,
        "Time between two heartbeats of a share group member.",
        minimum=1,
    )
    group_share_min_heartbeat_interval_ms = integer(
        "group.share.min.heartbeat.interval.ms",
        5000,
        "Lowest value that a share group may choose for its heartbeat interval.",
        minimum=1,
    )
    group_share_max_heartbeat_interval_ms = integer(
        "group.share.max.heartbeat.interval.ms",
        15_000,
        "Highest value that a share group may choose for its heartbeat interval.",
        minimum=1,
    )
    group_share_session_timeout_ms = integer(
        "group.share.session.timeout.ms",
        45_000,
        "Time without a heartbeat after which a share group member is removed.",
        minimum=1,
    )
    group_share_min_session_timeout_ms = integer(
        "group.share.min.session.timeout.ms",
        45_000,
        "Lowest value that a share group may choose for its session timeout.",
        minimum=1,
    )
    group_share_max_session_timeout_ms = integer(
        "group.share.max.session.timeout.ms",
        60_000,
        "Highest value that a share group may choose for its session timeout.",
        minimum=1,
    )
    group_share_max_size = integer(
        "group.share.max.size", 200, "Most members of a share group.", minimum=1, maximum=1000
    )
    group_share_max_share_sessions = integer(
        "group.share.max.share.sessions", 2000, "Share sessions this node keeps.", minimum=1
    )
    group_share_delivery_count_limit = integer(
        "group.share.delivery.count.limit",
        5,
        "Deliveries of a record before it counts as failed.",
        minimum=2,
        maximum=10,
    )
    group_share_min_delivery_count_limit = integer(
        "group.share.min.delivery.count.limit",
        2,
        "Lowest value that a share group may choose for its delivery limit.",
        minimum=2,
        maximum=5,
    )
    group_share_max_delivery_count_limit = integer(
        "group.share.max.delivery.count.limit",
        10,
        "Highest value that a share group may choose for its delivery limit.",
        minimum=5,
        maximum=25,
    )
    group_share_partition_max_record_locks = integer(
        "group.share.partition.max.record.locks",
        2000,
        "Records of a partition that a share group may hold at once.",
        minimum=100,
        maximum=10_000,
    )
    group_share_min_partition_max_record_locks = integer(
        "group.share.min.partition.max.record.locks",
        100,
        "Lowest value that a share group may choose for its record limit.",
        minimum=100,
        maximum=2000,
    )
    group_share_max_partition_max_record_locks = integer(
        "group.share.max.partition.max.record.locks",
        4000,
        "Highest value that a share group may choose for its record limit.",
        minimum=2000,
        maximum=10_000,
    )
    group_share_record_lock_duration_ms = integer(
        "group.share.record.lock.duration.ms",
        30_000,
        "Time for which a share group member holds a record.",
        minimum=1000,
        maximum=3_600_000,
    )
    group_share_min_record_lock_duration_ms = integer(
        "group.share.min.record.lock.duration.ms",
        15_000,
        "Lowest value that a share group may choose for its lock time.",
        minimum=1000,
        maximum=30_000,
    )
    group_share_max_record_lock_duration_ms = integer(
        "group.share.max.record.lock.duration.ms",
        60_000,
        "Highest value that a share group may choose for its lock time.",
        minimum=30_000,
        maximum=3_600_000,
    )
    group_share_initialize_retry_interval_ms = integer(
        "group.share.initialize.retry.interval.ms",
        30_000,
        "Time before initializing a share group's state is tried again.",
        minimum=1,
        internal=True,
    )
    group_share_persister_class_name = text(
        "group.share.persister.class.name",
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        "Class that keeps the state of share groups.",
        internal=True,
    )
    group_streams_assignment_interval_ms = integer(
        "group.streams.assignment.interval.ms",
        1000,
        "Shortest time between two assignments of a streams group.",
        minimum=0,
    )
    group_streams_min_assignment_interval_ms = integer(
        "group.streams.min.assignment.interval.ms",
        0,
        "Lowest value that a streams group may choose for its assignment interval.",
        minimum=0,
    )
    group_streams_max_assignment_interval_ms = integer(
        "group.streams.max.assignment.interval.ms",
        15_000,
        "Highest value that a streams group may choose for its assignment interval.",
        minimum=0,
    )
    group_streams_heartbeat_interval_ms = integer(
        "group.streams.heartbeat.interval.ms",
        5000,
        "Time between two heartbeats of a streams group member.",
        minimum=1,
    )
    group_streams_min_heartbeat_interval_ms = integer(
        "group.streams.min.heartbeat.interval.ms",
        5000,
        "Lowest value that a streams group may choose for its heartbeat interval.",
        minimum=1,
    )
    group_streams_max_heartbeat_interval_ms = integer(
        "group.streams.max.heartbeat.interval.ms",
        15_000,
        "Highest value that a streams group may choose for its heartbeat interval.",
        minimum=1,
    )
    group_streams_session_timeout_ms = integer(
        "group.streams.session.timeout.ms",
        45_000,
        "Time without a heartbeat after which a streams group member is removed.",
        minimum=1,
    )
    group_streams_min_session_timeout_ms = integer(
        "group.streams.min.session.timeout.ms",
        45_000,
        "Lowest value that a streams group may choose for its session timeout.",
        minimum=1,
    )
    group_streams_max_session_timeout_ms = integer(
        "group.streams.max.session.timeout.ms",
        60_000,
        "Highest value that a streams group may choose for its session timeout.",
        minimum=1,
    )
    group_streams_initial_rebalance_delay_ms = integer(
        "group.streams.initial.rebalance.delay.ms",
        3000,
        "Time for which a new streams group waits for more members.",
        minimum=0,
    )
    group_streams_max_size = integer(
        "group.streams.max.size", INT_MAX, "Most members of a streams group.", minimum=1
    )
    group_streams_num_standby_replicas = integer(
        "group.streams.num.standby.replicas", 0, "Standby copies of each streams task.", minimum=0
    )
    group_streams_max_standby_replicas = integer(
        "group.streams.max.standby.replicas",
        2,
        "Highest value that a streams group may choose for its standby copies.",
        minimum=0,
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes", 4096, "Longest metadata text of a committed offset."
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5000,
        "Time after which a commit that is not replicated fails.",
        minimum=1,
    )
    offsets_load_buffer_size = integer(
        "offsets.load.buffer.size", 5_242_880, "Bytes read at once when offsets are loaded.", minimum=1
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes", 10_080, "Time for which offsets of an empty group are kept.", minimum=1
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        "Time between two looks for offsets to forget.",
        minimum=1,
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions", 50, "Partitions of the topic that keeps offsets.", minimum=1
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor", 3, "Replicas of the topic that keeps offsets.", minimum=1
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes", 104_857_600, "Segment size of the topic that keeps offsets.", minimum=1
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec", 0, "Number of the codec in which offsets are stored."
    )
