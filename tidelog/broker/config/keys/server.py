"""The node's id, its listeners, and its limits of requests and connections.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
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
    topic_default,
)


class ServerKeys:
    """The keys of the node's id, its listeners, and its limits of requests and connections."""

    process_roles = text_list(
        "process.roles",
        ("broker", "controller"),
        "The roles of this node: broker, controller, or both.",
        valid_values=(
            "broker",
            "controller",
        ),
    )
    node_id = integer("node.id", -1, "The id of this node. It must be unique in the cluster.", minimum=0)
    broker_id = integer(
        "broker.id", -1, "The former name of node.id. If both are set, they must be equal; -1 means not set."
    )
    broker_rack = optional_text(
        "broker.rack",
        "The rack of this broker, for example its availability zone. New replicas are spread over racks, "
        "and a consumer can fetch from a replica in its own rack.",
    )
    listeners = text_list(
        "listeners",
        ("PLAINTEXT://:9092",),
        "The addresses to listen on, as a comma-separated list of NAME://host:port. An empty host means "
        "all network interfaces.",
    )
    advertised_listeners = optional_text_list(
        "advertised.listeners",
        "The addresses that clients and other brokers connect to, as a comma-separated list of "
        "NAME://host:port. If it is not set, the value of listeners is used.",
    )
    listener_security_protocol_map = text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener, as a comma-separated list of NAME:PROTOCOL.",
    )
    inter_broker_listener_name = optional_text(
        "inter.broker.listener.name",
        "The name of the listener for communication between brokers. If it is not set, "
        "security.inter.broker.protocol selects the listener.",
    )
    security_inter_broker_protocol = text(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The security protocol for communication between brokers. It is used only if "
        "inter.broker.listener.name is not set.",
        valid_values=(
            "PLAINTEXT",
            "SSL",
            "SASL_PLAINTEXT",
            "SASL_SSL",
        ),
    )
    early_start_listeners = optional_text_list(
        "early.start.listeners",
        "The names of the listeners that accept connections before the authorizer is initialized. Has no "
        "effect: controllers always do, and brokers never do.",
    )
    num_network_threads = integer(
        "num.network.threads",
        3,
        "The number of threads of a listener that receive requests and send responses. Has no effect: one "
        "event loop serves all listeners.",
        minimum=1,
    )
    num_io_threads = integer(
        "num.io.threads",
        8,
        "The number of threads that process requests. Has no effect: one event loop processes all requests.",
        minimum=1,
    )
    background_threads = integer(
        "background.threads", 10, "The number of threads for background tasks. Has no effect.", minimum=1
    )
    queued_max_requests = integer(
        "queued.max.requests",
        500,
        "The maximum number of requests that wait to be processed. Above it, no further requests are read "
        "from connections.",
        minimum=1,
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        -1,
        "The maximum size in bytes of the requests that wait to be processed. Above it, no further "
        "requests are read from connections. -1 means that only max.large.request.bytes applies.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        "The maximum time in milliseconds to wait for the response of another node.",
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        -1,
        "The size in bytes of the send buffer (SO_SNDBUF) of server sockets. -1 (in Kafka: 102400) uses "
        "the default of the operating system.",
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "The size in bytes of the receive buffer (SO_RCVBUF) of server sockets. -1 (in Kafka: 102400) "
        "uses the default of the operating system.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        104_857_600,
        "The maximum size of a request in bytes. A connection that sends a larger request is closed.",
        minimum=1,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        -1,
        "The maximum number of connections that wait to be accepted. -1 (in Kafka: 50) means the maximum "
        "of the operating system, net.core.somaxconn.",
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        "The maximum time in milliseconds to establish a connection to another node.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms",
        30_000,
        "The upper limit in milliseconds to which the time to establish a connection grows after repeated "
        "failures. Has no effect.",
    )
    max_connections = integer(
        "max.connections",
        INT_MAX,
        "The maximum number of connections of this broker on all listeners. "
        "listener.name.NAME.max.connections limits one listener.",
        minimum=0,
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip", INT_MAX, "The maximum number of connections from one IP address.", minimum=0
    )
    max_connections_per_ip_overrides = text(
        "max.connections.per.ip.overrides",
        "",
        "The maximum numbers of connections from particular IP addresses or hosts, as a comma-separated "
        "list of host:count. They replace max.connections.per.ip.",
    )
    max_connection_creation_rate = integer(
        "max.connection.creation.rate",
        INT_MAX,
        "The maximum number of new connections per second on all listeners. "
        "listener.name.NAME.max.connection.creation.rate limits one listener.",
        minimum=0,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        "The time in milliseconds without traffic after which a connection is closed. -1 means no limit.",
    )
    connections_max_reauth_ms = long(
        "connections.max.reauth.ms",
        0,
        "The time in milliseconds after which a client that authenticated with SASL must authenticate "
        "again. 0 means no limit.",
    )
    connection_failed_authentication_delay_ms = integer(
        "connection.failed.authentication.delay.ms",
        100,
        "The delay in milliseconds before a connection is closed whose authentication has failed.",
        minimum=0,
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        "Whether a request for a topic that does not exist creates the topic.",
    )
    delete_topic_enable = boolean("delete.topic.enable", True, "Whether topics can be deleted.")
    num_partitions = integer(
        "num.partitions", 1, "The default number of partitions of a new topic.", minimum=1
    )
    default_replication_factor = integer(
        "default.replication.factor", 1, "The default replication factor of a new topic."
    )
    create_topic_policy_class_name = optional_class_name(
        "create.topic.policy.class.name",
        "The Java class that validates requests to create topics. Has no effect.",
    )
    alter_config_policy_class_name = optional_class_name(
        "alter.config.policy.class.name",
        "The Java class that validates requests to alter configs. Has no effect.",
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether the controller regularly makes preferred replicas the leaders of their partitions.",
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "The interval in seconds at which the controller checks whether preferred replicas are leaders.",
        minimum=1,
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        topic_default("unclean.leader.election.enable"),
        "The default of the topic config unclean.leader.election.enable.",
    )
    unclean_leader_election_interval_ms = long(
        "unclean.leader.election.interval.ms",
        300_000,
        "The interval in milliseconds at which the controller checks for partitions that need an unclean "
        "leader election.",
        minimum=1,
        internal=True,
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable",
        True,
        "Whether this broker transfers its leaderships to other replicas before it shuts down.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        57_671_680,
        "The maximum size of a Fetch response in bytes. A first record batch that is larger is returned "
        "nevertheless.",
        minimum=1024,
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "The maximum number of incremental fetch sessions that this broker maintains.",
        minimum=0,
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "The maximum number of partitions in a DescribeTopicPartitions response.",
        minimum=1,
    )
    fetch_purgatory_purge_interval_requests = integer(
        "fetch.purgatory.purge.interval.requests",
        1000,
        "The number of completed requests after which the fetch purgatory is purged. Has no effect: "
        "completed requests are removed at once.",
    )
    producer_purgatory_purge_interval_requests = integer(
        "producer.purgatory.purge.interval.requests",
        1000,
        "The number of completed requests after which the produce purgatory is purged. Has no effect: "
        "completed requests are removed at once.",
    )
    delete_records_purgatory_purge_interval_requests = integer(
        "delete.records.purgatory.purge.interval.requests",
        1,
        "The number of completed requests after which the purgatory of DeleteRecords is purged. Has no "
        "effect: completed requests are removed at once.",
    )
    share_fetch_purgatory_purge_interval_requests = integer(
        "share.fetch.purgatory.purge.interval.requests",
        1000,
        "The number of completed requests after which the share fetch purgatory is purged. Has no effect.",
    )
    telemetry_max_bytes = integer(
        "telemetry.max.bytes",
        1_048_576,
        "The maximum size in bytes of the metrics that a client pushes, before and after decompression.",
        minimum=1,
    )
    client_telemetry_metrics_enable = boolean(
        "client.telemetry.metrics.enable",
        False,
        "Whether the metrics that clients push are served on metrics.port. Needs tidelog[otel]. Tidelog's "
        "own key.",
    )
    client_telemetry_series_max = integer(
        "client.telemetry.series.max",
        10_000,
        "The number of series of clients that client.telemetry.metrics.enable serves; further ones are "
        "rejected. Tidelog's own key.",
        minimum=0,
        maximum=20_000,
    )
    client_telemetry_otlp_endpoint = optional_text(
        "client.telemetry.otlp.endpoint",
        "The URL to which the metrics of clients are sent in OpenTelemetry's protocol over HTTP, for example "
        "http://collector:4318/v1/metrics. Needs tidelog[otel]. Tidelog's own key.",
    )
    client_telemetry_file = optional_text(
        "client.telemetry.file",
        "The path of the file to which the metrics of clients are appended as lines of OTLP in JSON. Needs "
        "tidelog[otel]. Tidelog's own key.",
    )
    client_telemetry_file_max_bytes = long(
        "client.telemetry.file.max.bytes",
        104_857_600,
        "The size in bytes at which client.telemetry.file is renamed to <path>.1, and a new file begins. "
        "Tidelog's own key.",
        minimum=1_048_576,
    )
    metric_reporters = text_list(
        "metric.reporters",
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "The classes that report metrics, as a comma-separated list. Has no effect yet.",
    )
    metrics_num_samples = integer(
        "metrics.num.samples",
        2,
        "The number of samples from which a metric is computed. Has no effect yet.",
        minimum=1,
    )
    metrics_sample_window_ms = long(
        "metrics.sample.window.ms",
        30_000,
        "The duration in milliseconds of one sample of a metric. Has no effect yet.",
        minimum=1,
    )
    metrics_recording_level = text(
        "metrics.recording.level",
        "INFO",
        "The lowest level at which metrics are recorded: INFO, DEBUG or TRACE. Has no effect yet.",
    )
    kafka_metrics_polling_interval_secs = integer(
        "kafka.metrics.polling.interval.secs",
        10,
        "The interval in seconds at which kafka.metrics.reporters read metrics. Has no effect yet.",
        minimum=1,
    )
    kafka_metrics_reporters = text_list(
        "kafka.metrics.reporters",
        (),
        "The classes that report Yammer metrics, as a comma-separated list. Has no effect yet.",
    )
    metrics_port = optional_integer(
        "metrics.port",
        "The port on which metrics are served over HTTP. 0 means any free port. If it is not set, metrics "
        "are not served. Tidelog's own key.",
        minimum=0,
        maximum=65_535,
    )
    metrics_host = optional_text(
        "metrics.host",
        "The host on which metrics are served over HTTP. If it is not set, the loopback address 127.0.0.1 "
        "is used. An empty host means all addresses. Tidelog's own key.",
    )
    metrics_otlp_endpoint = optional_text(
        "metrics.otlp.endpoint",
        "The URL to which metrics are sent in OpenTelemetry's protocol over HTTP, for example "
        "http://collector:4318/v1/metrics. If it is not set, metrics are not sent. Needs tidelog[otel]. "
        "Tidelog's own key.",
    )
    metrics_otlp_interval_ms = integer(
        "metrics.otlp.interval.ms",
        60_000,
        "The interval in milliseconds at which metrics are sent to metrics.otlp.endpoint. Tidelog's own key.",
        minimum=1_000,
    )
    metrics_topics_max = integer(
        "metrics.topics.max",
        1_000,
        "The number of topics whose bytes and messages have metrics of their own; further topics are counted "
        "together. Tidelog's own key.",
        minimum=0,
        maximum=100_000,
    )
    metrics_group_offsets_max = integer(
        "metrics.group.offsets.max",
        5_000,
        "The number of committed offsets of groups whose lag has a metric; further ones have none. Tidelog's "
        "own key.",
        minimum=0,
        maximum=20_000,
    )
    metrics_security_protocol = text(
        "metrics.security.protocol",
        "PLAINTEXT",
        "The protocol of the metrics endpoint: PLAINTEXT, or SSL with the keys ssl.* or "
        "listener.name.metrics.ssl.*. Tidelog's own key.",
        valid_values=("PLAINTEXT", "SSL"),
    )
    metrics_token_file = optional_text(
        "metrics.token.file",
        "The path of a file with the token that clients of /metrics must send as "
        "'Authorization: Bearer <token>'. If it is not set, no token is required. Tidelog's own key.",
    )
    max_large_request_bytes = long(
        "max.large.request.bytes",
        536_870_912,
        "The maximum total size in bytes of requests above 16 KiB that are being received or processed. "
        "It does not apply if queued.max.request.bytes is set. Tidelog's own key.",
        minimum=1_048_576,
    )
    max_unsent_response_bytes = long(
        "max.unsent.response.bytes",
        268_435_456,
        "The maximum total size in bytes of responses that clients have not received yet. Above it, the "
        "connection with the most unsent bytes is closed. Tidelog's own key.",
        minimum=1_048_576,
    )
    max_parked_request_bytes = long(
        "max.parked.request.bytes",
        134_217_728,
        "The maximum memory in bytes of requests that wait for data, for replicas or for remote storage. "
        "Above it, the largest requests expire early. Tidelog's own key.",
        minimum=1_048_576,
    )
    config_providers = text_list(
        "config.providers",
        (),
        "The names of the config providers, as a comma-separated list. They replace variables in the file, "
        "in the environment and on the command line, but not in dynamic configs.",
    )
    server_max_startup_time_ms = long(
        "server.max.startup.time.ms",
        NO_LIMIT,
        "The maximum time in milliseconds that the start of the node may take. Has no effect.",
        minimum=0,
        internal=True,
    )
    unstable_api_versions_enable = boolean(
        "unstable.api.versions.enable",
        False,
        "Whether API versions that are still in development are served. Has no effect.",
        internal=True,
    )
    unstable_feature_versions_enable = boolean(
        "unstable.feature.versions.enable",
        False,
        "Whether feature levels that are still in development can be used. Has no effect.",
        internal=True,
    )
