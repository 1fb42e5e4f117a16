"""The node's id, its listeners, and its limits of requests and connections.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import (
    INT_MAX,
    NO_LIMIT,
    boolean,
    integer,
    long,
    optional_class_name,
    optional_integer,
    optional_text,
    optional_text_list,
    text,
    text_list,
)


class ServerKeys:
    """The keys of the node's id, its listeners, and its limits of requests and connections."""

    process_roles = text_list(
        "process.roles",
        ("broker", "controller"),
        "Roles of this node: broker, controller, or both.",
        valid_values=(
            "broker",
            "controller",
        ),
    )
    node_id = integer("node.id", -1, "Number that names this node in the cluster.", minimum=0)
    broker_id = integer("broker.id", -1, "Older name of node.id; -1 when only node.id is set.")
    broker_rack = optional_text(
        "broker.rack", "Rack or zone of this node, used to spread replicas and to serve readers nearby."
    )
    listeners = text_list(
        "listeners",
        ("PLAINTEXT://:9092",),
        "Addresses to listen on, NAME://host:port; an empty host is every interface.",
    )
    advertised_listeners = optional_text_list(
        "advertised.listeners", "Addresses to which clients connect; the listeners if not set."
    )
    listener_security_protocol_map = text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name.",
    )
    inter_broker_listener_name = optional_text(
        "inter.broker.listener.name", "Listener on which brokers reach each other."
    )
    security_inter_broker_protocol = text(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "Security protocol between brokers when inter.broker.listener.name is not set.",
        valid_values=(
            "PLAINTEXT",
            "SSL",
            "SASL_PLAINTEXT",
            "SASL_SSL",
        ),
    )
    early_start_listeners = optional_text_list(
        "early.start.listeners", "Listeners that open before the authorizer has loaded."
    )
    num_network_threads = integer(
        "num.network.threads",
        3,
        "Processors that read requests and write responses, per listener.",
        minimum=1,
    )
    num_io_threads = integer("num.io.threads", 8, "Handlers that process requests.", minimum=1)
    background_threads = integer(
        "background.threads", 10, "Threads for periodic and deferred work.", minimum=1
    )
    queued_max_requests = integer(
        "queued.max.requests",
        500,
        "Requests that may wait for a handler before connections are no longer read.",
        minimum=1,
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        -1,
        "Bytes of requests that may wait for a handler; -1: max.large.request.bytes counts.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms", 30_000, "Longest time to wait for another node's response."
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        -1,
        "Send buffer of server sockets; -1 (Kafka: 102400) leaves it to the operating system.",
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "Receive buffer of server sockets; -1 (Kafka: 102400) leaves it to the operating system.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        104_857_600,
        "Largest request frame; a longer one closes its connection.",
        minimum=1,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        -1,
        "Connections that the operating system may hold before they are accepted; -1 (Kafka: 50) is the "
        "system's maximum, net.core.somaxconn.",
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        "Time to wait for a connection to another node at first.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms",
        30_000,
        "Time to wait for a connection to another node after many failures.",
    )
    max_connections = integer(
        "max.connections", INT_MAX, "Connections this node takes on all listeners.", minimum=0
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip", INT_MAX, "Connections this node takes from one address.", minimum=0
    )
    max_connections_per_ip_overrides = text(
        "max.connections.per.ip.overrides",
        "",
        "Connection limits of single addresses, address:count, separated by commas.",
    )
    max_connection_creation_rate = integer(
        "max.connection.creation.rate", INT_MAX, "New connections per second this node takes.", minimum=0
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms", 600_000, "Time without traffic after which a connection is closed."
    )
    connections_max_reauth_ms = long(
        "connections.max.reauth.ms", 0, "Time for which a SASL session is valid; 0 means for ever."
    )
    connection_failed_authentication_delay_ms = integer(
        "connection.failed.authentication.delay.ms",
        100,
        "Delay before a connection that failed to authenticate is closed.",
        minimum=0,
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable", True, "Whether a request for a topic that does not exist creates it."
    )
    delete_topic_enable = boolean("delete.topic.enable", True, "Whether topics can be deleted.")
    num_partitions = integer("num.partitions", 1, "Partitions of a new topic by default.", minimum=1)
    default_replication_factor = integer(
        "default.replication.factor", 1, "Replicas of a new topic by default."
    )
    create_topic_policy_class_name = optional_class_name(
        "create.topic.policy.class.name", "Class that may refuse the creation of a topic."
    )
    alter_config_policy_class_name = optional_class_name(
        "alter.config.policy.class.name", "Class that may refuse a change of configs."
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable", True, "Whether leadership returns to preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "Time between two checks of leader balance.",
        minimum=1,
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable", False, "Default of the topic config unclean.leader.election.enable."
    )
    unclean_leader_election_interval_ms = long(
        "unclean.leader.election.interval.ms",
        300_000,
        "Time between two looks for partitions that need an unclean election.",
        minimum=1,
        internal=True,
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable", True, "Whether leadership is moved away before this node stops."
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes", 57_671_680, "Most bytes of one fetch response.", minimum=1024
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions this node keeps.", minimum=0
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "Most partitions of one DescribeTopicPartitions response.",
        minimum=1,
    )
    fetch_purgatory_purge_interval_requests = integer(
        "fetch.purgatory.purge.interval.requests",
        1000,
        "No effect: completed fetches leave the purgatory at once.",
    )
    producer_purgatory_purge_interval_requests = integer(
        "producer.purgatory.purge.interval.requests",
        1000,
        "No effect: completed produces leave the purgatory at once.",
    )
    delete_records_purgatory_purge_interval_requests = integer(
        "delete.records.purgatory.purge.interval.requests",
        1,
        "No effect: completed deletions of records leave the purgatory at once.",
    )
    share_fetch_purgatory_purge_interval_requests = integer(
        "share.fetch.purgatory.purge.interval.requests",
        1000,
        "Completed share fetches that may stay in the purgatory before it is purged.",
    )
    telemetry_max_bytes = integer(
        "telemetry.max.bytes", 1_048_576, "Largest client telemetry after decompression.", minimum=1
    )
    metric_reporters = text_list(
        "metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), "Classes that publish metrics."
    )
    metrics_num_samples = integer(
        "metrics.num.samples", 2, "Samples over which a metric is computed.", minimum=1
    )
    metrics_sample_window_ms = long(
        "metrics.sample.window.ms", 30_000, "Time that one sample of a metric covers.", minimum=1
    )
    metrics_recording_level = text(
        "metrics.recording.level", "INFO", "Lowest level of metrics that are recorded."
    )
    kafka_metrics_polling_interval_secs = integer(
        "kafka.metrics.polling.interval.secs", 10, "Time between two polls of metrics reporters.", minimum=1
    )
    kafka_metrics_reporters = text_list(
        "kafka.metrics.reporters", (), "Classes that publish the older kind of metrics."
    )
    metrics_port = optional_integer(
        "metrics.port",
        "Port of metrics over HTTP; not served when not set, any free one when 0. Tidelog's own key.",
        minimum=0,
        maximum=65_535,
    )
    metrics_host = optional_text(
        "metrics.host",
        "Address of metrics over HTTP; the host of the first listener when not set. Tidelog's own key.",
    )
    max_large_request_bytes = long(
        "max.large.request.bytes",
        536_870_912,
        "Memory of requests larger than 16 KiB that are received or worked on, unless "
        "queued.max.request.bytes is set. Tidelog's own key.",
        minimum=1_048_576,
    )
    max_unsent_response_bytes = long(
        "max.unsent.response.bytes",
        268_435_456,
        "Memory of responses that clients do not read; beyond it the connection with the largest is closed. "
        "Tidelog's own key.",
        minimum=1_048_576,
    )
    max_parked_request_bytes = long(
        "max.parked.request.bytes",
        134_217_728,
        "Memory that requests may keep while they wait for data, replicas or remote storage; beyond it the "
        "largest requests expire early. Tidelog's own key.",
        minimum=1_048_576,
    )
    config_providers = text_list(
        "config.providers", (), "Names of providers that resolve variables in config values."
    )
    server_max_startup_time_ms = long(
        "server.max.startup.time.ms",
        NO_LIMIT,
        "Longest time that starting may take.",
        minimum=0,
        internal=True,
    )
    unstable_api_versions_enable = boolean(
        "unstable.api.versions.enable",
        False,
        "Whether protocol versions that may still change are served.",
        internal=True,
    )
    unstable_feature_versions_enable = boolean(
        "unstable.feature.versions.enable",
        False,
        "Whether feature levels that may still change can be used.",
        internal=True,
    )
