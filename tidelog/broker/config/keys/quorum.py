"""Replication between brokers, the controller quorum and the metadata log.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import (
    boolean,
    integer,
    long,
    optional_class_name,
    optional_integer,
    optional_text,
    text_list,
)


class QuorumKeys:
    """Replication between brokers, the controller quorum and the metadata log."""

    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "The number of fetchers that replicate partitions from each leader.",
        minimum=1,
    )
    num_replica_alter_log_dirs_threads = optional_integer(
        "num.replica.alter.log.dirs.threads",
        "The number of threads that move replicas between log directories. If it is not set, it is the "
        "number of log directories.",
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        1_048_576,
        "The maximum number of bytes per partition that a follower fetches. A first record batch that is "
        "larger is returned nevertheless.",
        minimum=0,
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        "The number of bytes for which a follower's Fetch request waits, at most replica.fetch.wait.max.ms.",
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10_485_760,
        "The maximum size in bytes of a Fetch response to a follower.",
        minimum=0,
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "The maximum time in milliseconds that a follower's Fetch request waits for replica.fetch.min.bytes.",
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        1000,
        "The time in milliseconds that a follower waits after a failed Fetch request for a partition.",
        minimum=0,
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "The interval in milliseconds at which the high watermarks of all partitions are written to "
        "replication-offset-checkpoint.",
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "The time in milliseconds after which the leader removes a follower from the in-sync replicas if "
        "the follower has not reached the log end offset.",
    )
    replica_selector_class = optional_text(
        "replica.selector.class",
        "The class that selects the replica from which a consumer fetches: Kafka's LeaderSelector or "
        "RackAwareReplicaSelector. If it is not set, consumers fetch from the leader.",
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30_000,
        "The maximum time in milliseconds that a follower waits for a response of the leader.",
    )
    replica_socket_receive_buffer_bytes = integer(
        "replica.socket.receive.buffer.bytes",
        -1,
        "The size in bytes of the receive buffer (SO_RCVBUF) of a follower's sockets. -1 (in Kafka: "
        "65536) uses the default of the operating system.",
    )
    follower_fetch_last_tiered_offset_enable = boolean(
        "follower.fetch.last.tiered.offset.enable",
        False,
        "Whether a new follower of a tiered partition starts at the last offset in remote storage instead "
        "of the leader's local log start offset.",
    )
    broker_heartbeat_interval_ms = integer(
        "broker.heartbeat.interval.ms",
        2000,
        "The interval in milliseconds at which a broker sends heartbeats to the active controller.",
    )
    broker_session_timeout_ms = integer(
        "broker.session.timeout.ms",
        9000,
        "The time in milliseconds without a heartbeat after which the controller fences a broker.",
    )
    initial_broker_registration_timeout_ms = integer(
        "initial.broker.registration.timeout.ms",
        60_000,
        "The time in milliseconds after which a starting broker stops if it could not register with the "
        "controller.",
    )
    controller_listener_names = text_list(
        "controller.listener.names",
        (),
        "The names of the listeners of controllers, as a comma-separated list. Brokers connect to the "
        "first one.",
    )
    controller_quorum_voters = text_list(
        "controller.quorum.voters",
        (),
        "The voters of a static quorum, as a comma-separated list of id@host:port.",
    )
    controller_quorum_bootstrap_servers = text_list(
        "controller.quorum.bootstrap.servers",
        (),
        "The addresses at which the controllers of a dynamic quorum are found, as a comma-separated list "
        "of host:port.",
    )
    controller_quorum_auto_join_enable = boolean(
        "controller.quorum.auto.join.enable",
        False,
        "Whether a controller that is an observer requests the leader to add it to the voters (KIP-1186).",
    )
    controller_quorum_append_linger_ms = integer(
        "controller.quorum.append.linger.ms",
        25,
        "The time in milliseconds that the leader collects metadata records before it writes them. Has no "
        "effect.",
        minimum=0,
    )
    controller_quorum_election_timeout_ms = integer(
        "controller.quorum.election.timeout.ms",
        1000,
        "The maximum time in milliseconds without a response of the leader before a voter starts an "
        "election.",
        minimum=0,
    )
    controller_quorum_election_backoff_max_ms = integer(
        "controller.quorum.election.backoff.max.ms",
        1000,
        "The maximum time in milliseconds before a voter starts another election.",
        minimum=0,
    )
    controller_quorum_fetch_timeout_ms = integer(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "The time in milliseconds without a successful Fetch after which a voter becomes a candidate, and "
        "without a Fetch of a majority after which the leader resigns.",
        minimum=0,
    )
    controller_quorum_fetch_max_bytes = integer(
        "controller.quorum.fetch.max.bytes",
        1_048_576,
        "The maximum number of bytes of the metadata log that a replica fetches at once.",
        minimum=1,
    )
    controller_quorum_fetch_snapshot_max_bytes = integer(
        "controller.quorum.fetch.snapshot.max.bytes",
        1_048_576,
        "The maximum number of bytes of a metadata snapshot that a replica fetches at once.",
        minimum=1,
    )
    controller_quorum_request_timeout_ms = integer(
        "controller.quorum.request.timeout.ms",
        2000,
        "The maximum time in milliseconds that a replica of the quorum waits for a response.",
        minimum=0,
    )
    controller_quorum_retry_backoff_ms = integer(
        "controller.quorum.retry.backoff.ms",
        20,
        "The time in milliseconds before a failed request to a replica of the quorum is retried.",
        minimum=0,
    )
    controller_socket_timeout_ms = integer(
        "controller.socket.timeout.ms",
        30_000,
        "The maximum time in milliseconds that a broker waits for a response of the controller.",
    )
    controller_performance_always_log_threshold_ms = long(
        "controller.performance.always.log.threshold.ms",
        2000,
        "The duration in milliseconds above which an event of the controller is logged as slow. Has no "
        "effect.",
        minimum=0,
        internal=True,
    )
    controller_performance_sample_period_ms = long(
        "controller.performance.sample.period.ms",
        60_000,
        "The interval in milliseconds at which the performance of the controller's events is logged. Has "
        "no effect.",
        minimum=100,
        internal=True,
    )
    metadata_log_dir = optional_text(
        "metadata.log.dir",
        "The directory of the metadata log. If it is not set, the first log directory is used.",
    )
    metadata_log_segment_bytes = integer(
        "metadata.log.segment.bytes",
        1_073_741_824,
        "The maximum size in bytes of a segment of the metadata log.",
        minimum=8_388_608,
    )
    metadata_log_segment_ms = long(
        "metadata.log.segment.ms",
        604_800_000,
        "The time in milliseconds after which the active segment of the metadata log is rolled.",
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        "metadata.log.max.record.bytes.between.snapshots",
        20_971_520,
        "The number of bytes of metadata records after which a snapshot is written.",
        minimum=1,
    )
    metadata_log_max_snapshot_interval_ms = long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "The maximum time in milliseconds between a metadata record and a snapshot that contains it. 0 "
        "means no limit.",
        minimum=0,
    )
    metadata_max_idle_interval_ms = integer(
        "metadata.max.idle.interval.ms",
        500,
        "The interval in milliseconds at which the active controller writes a no-op record if it has "
        "nothing else to write. 0 means never.",
        minimum=0,
    )
    metadata_max_retention_bytes = long(
        "metadata.max.retention.bytes",
        104_857_600,
        "The maximum size in bytes of the metadata log and its snapshots. Above it, the oldest snapshots "
        "and segments are deleted. -1 means no limit.",
    )
    metadata_max_retention_ms = long(
        "metadata.max.retention.ms",
        604_800_000,
        "The time in milliseconds after which segments and snapshots of the metadata log are deleted. -1 "
        "means no limit.",
    )
    internal_metadata_log_segment_bytes = optional_integer(
        "internal.metadata.log.segment.bytes",
        "The maximum size in bytes of a segment of the metadata log, without a lower bound, for tests.",
        internal=True,
    )
    internal_metadata_max_batch_size_in_bytes = integer(
        "internal.metadata.max.batch.size.in.bytes",
        8_388_608,
        "The maximum size in bytes of a batch of the metadata log, for tests. Has no effect.",
        internal=True,
    )
    internal_metadata_delete_delay_millis = long(
        "internal.metadata.delete.delay.millis",
        60_000,
        "The time in milliseconds before files of the metadata log are deleted, for tests. Has no effect.",
        internal=True,
    )
    quota_window_num = integer(
        "quota.window.num",
        11,
        "The number of samples over which the rate of client quotas is measured.",
        minimum=1,
    )
    quota_window_size_seconds = integer(
        "quota.window.size.seconds",
        1,
        "The duration in seconds of one sample of client quotas.",
        minimum=1,
    )
    replication_quota_window_num = integer(
        "replication.quota.window.num",
        11,
        "The number of samples over which the rate of replication quotas is measured.",
        minimum=1,
    )
    replication_quota_window_size_seconds = integer(
        "replication.quota.window.size.seconds",
        1,
        "The duration in seconds of one sample of replication quotas.",
        minimum=1,
    )
    alter_log_dirs_replication_quota_window_num = integer(
        "alter.log.dirs.replication.quota.window.num",
        11,
        "The number of samples over which the rate of the quota of moves between log directories is "
        "measured.",
        minimum=1,
    )
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        "alter.log.dirs.replication.quota.window.size.seconds",
        1,
        "The duration in seconds of one sample of the quota of moves between log directories.",
        minimum=1,
    )
    controller_quota_window_num = integer(
        "controller.quota.window.num",
        11,
        "The number of samples over which quotas of controller mutations allow a burst.",
        minimum=1,
    )
    controller_quota_window_size_seconds = integer(
        "controller.quota.window.size.seconds",
        1,
        "The duration in seconds of one sample of quotas of controller mutations.",
        minimum=1,
    )
    client_quota_callback_class = optional_class_name(
        "client.quota.callback.class", "The class that determines the quotas of clients. Has no effect yet."
    )
