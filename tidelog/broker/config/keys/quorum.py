"""Replication between brokers, the controller quorum and the metadata log.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
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
        "num.replica.fetchers", 1, "Fetchers per leader that copy partitions to this node.", minimum=1
    )
    num_replica_alter_log_dirs_threads = optional_integer(
        "num.replica.alter.log.dirs.threads",
        "Threads that move replicas between directories; one per directory when not set.",
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes", 1_048_576, "Bytes that a follower requests per partition.", minimum=0
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes", 1, "Bytes for which a follower's fetch waits."
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes", 10_485_760, "Most bytes of one response to a follower.", minimum=0
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms", 500, "Longest time a follower's fetch waits."
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms", 1000, "Time a follower waits after a failed fetch.", minimum=0
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "Time between two writes of the high watermarks.",
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "Time behind the leader after which a follower leaves the in-sync set.",
    )
    replica_selector_class = optional_text(
        "replica.selector.class", "Class that selects the replica from which a consumer fetches."
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms", 30_000, "Longest time for a follower's request on the network."
    )
    replica_socket_receive_buffer_bytes = integer(
        "replica.socket.receive.buffer.bytes",
        -1,
        "Receive buffer of a follower's sockets; -1 (Kafka: 65536) leaves it to the operating system.",
    )
    follower_fetch_last_tiered_offset_enable = boolean(
        "follower.fetch.last.tiered.offset.enable",
        False,
        "Whether a new follower starts at the last offset that was copied to remote storage.",
    )
    broker_heartbeat_interval_ms = integer(
        "broker.heartbeat.interval.ms", 2000, "Time between two heartbeats of a broker to the controller."
    )
    broker_session_timeout_ms = integer(
        "broker.session.timeout.ms",
        9000,
        "Time without a heartbeat after which the controller fences a broker.",
    )
    initial_broker_registration_timeout_ms = integer(
        "initial.broker.registration.timeout.ms",
        60_000,
        "Time after which a broker that cannot register stops.",
    )
    controller_listener_names = text_list(
        "controller.listener.names", (), "Listeners of the controllers, the first of which brokers use."
    )
    controller_quorum_voters = text_list(
        "controller.quorum.voters", (), "Voters of a fixed quorum, id@host:port, separated by commas."
    )
    controller_quorum_bootstrap_servers = text_list(
        "controller.quorum.bootstrap.servers", (), "Addresses at which the controller quorum is found."
    )
    controller_quorum_auto_join_enable = boolean(
        "controller.quorum.auto.join.enable", False, "Whether a controller adds itself to the voters."
    )
    controller_quorum_append_linger_ms = integer(
        "controller.quorum.append.linger.ms",
        25,
        "Time for which the leader gathers records before it writes them.",
        minimum=0,
    )
    controller_quorum_election_timeout_ms = integer(
        "controller.quorum.election.timeout.ms",
        1000,
        "Time without a leader after which an election starts.",
        minimum=0,
    )
    controller_quorum_election_backoff_max_ms = integer(
        "controller.quorum.election.backoff.max.ms", 1000, "Longest pause between two elections.", minimum=0
    )
    controller_quorum_fetch_timeout_ms = integer(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "Time without a successful fetch after which a voter looks for another leader.",
        minimum=0,
    )
    controller_quorum_fetch_max_bytes = integer(
        "controller.quorum.fetch.max.bytes",
        1_048_576,
        "Most bytes of one fetch of the metadata log.",
        minimum=1,
    )
    controller_quorum_fetch_snapshot_max_bytes = integer(
        "controller.quorum.fetch.snapshot.max.bytes",
        1_048_576,
        "Most bytes of one fetch of a metadata snapshot.",
        minimum=1,
    )
    controller_quorum_request_timeout_ms = integer(
        "controller.quorum.request.timeout.ms",
        2000,
        "Longest time to wait for another controller's response.",
        minimum=0,
    )
    controller_quorum_retry_backoff_ms = integer(
        "controller.quorum.retry.backoff.ms",
        20,
        "Time to wait before a request to a controller is repeated.",
        minimum=0,
    )
    controller_socket_timeout_ms = integer(
        "controller.socket.timeout.ms", 30_000, "Longest time for a request to the controller on the network."
    )
    controller_performance_always_log_threshold_ms = long(
        "controller.performance.always.log.threshold.ms",
        2000,
        "Time above which a slow controller event is logged.",
        minimum=0,
        internal=True,
    )
    controller_performance_sample_period_ms = long(
        "controller.performance.sample.period.ms",
        60_000,
        "Time between two reports of slow controller events.",
        minimum=100,
        internal=True,
    )
    metadata_log_dir = optional_text(
        "metadata.log.dir", "Directory of the metadata log; the first log directory when not set."
    )
    metadata_log_segment_bytes = integer(
        "metadata.log.segment.bytes",
        1_073_741_824,
        "Size of a segment of the metadata log.",
        minimum=8_388_608,
    )
    metadata_log_segment_ms = long(
        "metadata.log.segment.ms", 604_800_000, "Age at which a segment of the metadata log is sealed."
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        "metadata.log.max.record.bytes.between.snapshots",
        20_971_520,
        "Bytes of metadata records after which a snapshot is written.",
        minimum=1,
    )
    metadata_log_max_snapshot_interval_ms = long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "Time after which a snapshot is written if anything changed; 0 means never by time.",
        minimum=0,
    )
    metadata_max_idle_interval_ms = integer(
        "metadata.max.idle.interval.ms",
        500,
        "Time after which an idle controller writes a record that does nothing; 0 means never.",
        minimum=0,
    )
    metadata_max_retention_bytes = long(
        "metadata.max.retention.bytes",
        104_857_600,
        "Size of metadata log and snapshots above which the oldest are removed.",
    )
    metadata_max_retention_ms = long(
        "metadata.max.retention.ms",
        604_800_000,
        "Age at which metadata log segments and snapshots are removed.",
    )
    internal_metadata_log_segment_bytes = optional_integer(
        "internal.metadata.log.segment.bytes",
        "Size of a segment of the metadata log without a bound, for tests.",
        internal=True,
    )
    internal_metadata_max_batch_size_in_bytes = integer(
        "internal.metadata.max.batch.size.in.bytes",
        8_388_608,
        "Largest batch of the metadata log, for tests.",
        internal=True,
    )
    internal_metadata_delete_delay_millis = long(
        "internal.metadata.delete.delay.millis",
        60_000,
        "Delay before files of the metadata log are removed, for tests.",
        internal=True,
    )
    quota_window_num = integer(
        "quota.window.num", 11, "Samples over which client quotas are measured.", minimum=1
    )
    quota_window_size_seconds = integer(
        "quota.window.size.seconds", 1, "Time that one sample of client quotas covers.", minimum=1
    )
    replication_quota_window_num = integer(
        "replication.quota.window.num", 11, "Samples over which replication quotas are measured.", minimum=1
    )
    replication_quota_window_size_seconds = integer(
        "replication.quota.window.size.seconds",
        1,
        "Time that one sample of replication quotas covers.",
        minimum=1,
    )
    alter_log_dirs_replication_quota_window_num = integer(
        "alter.log.dirs.replication.quota.window.num",
        11,
        "Samples over which quotas of moves between directories are measured.",
        minimum=1,
    )
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        "alter.log.dirs.replication.quota.window.size.seconds",
        1,
        "Time that one sample of quotas of moves between directories covers.",
        minimum=1,
    )
    controller_quota_window_num = integer(
        "controller.quota.window.num",
        11,
        "Samples over which quotas of controller changes are measured.",
        minimum=1,
    )
    controller_quota_window_size_seconds = integer(
        "controller.quota.window.size.seconds",
        1,
        "Time that one sample of quotas of controller changes covers.",
        minimum=1,
    )
    client_quota_callback_class = optional_class_name(
        "client.quota.callback.class", "Class that decides client quotas."
    )
