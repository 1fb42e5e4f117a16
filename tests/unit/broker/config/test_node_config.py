"""A node's configuration: sources and precedence, Kafka's defaults, and consistency."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.configs import log_config
from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.dynamic_keys import (
    CLUSTER_WIDE_KEYS,
    DYNAMIC_KEYS,
    DYNAMIC_ONLY_CONFIGS,
    PER_BROKER_KEYS,
)
from tidelog.broker.config.keys.key import Key
from tidelog.broker.config.keys.server import ServerKeys
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS, log_config_from


def config(**values: str) -> BrokerConfig:
    texts = {"node.id": "1"} | {key.replace("_", "."): value for key, value in values.items()}
    return BrokerConfig(texts)


def refusal(**values: str) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        config(**values)
    assert "\n" not in str(error.value)
    return error.value


def test_later_values_override_earlier_ones() -> None:
    loaded = BrokerConfig.load(
        "node.id=1\nnum.partitions=2\nnum.io.threads=3\nbroker.rack=file",
        {"KAFKA_NUM_PARTITIONS": "20", "KAFKA_BROKER_RACK": "environment", "PATH": "/bin"},
        {"broker.rack": "override"},
    )
    assert (loaded.num_io_threads, loaded.num_partitions, loaded.broker_rack) == (3, 20, "override")
    assert loaded.explicit["num.partitions"] == "20"


def test_defaults_equal_kafkas() -> None:
    node_config = config()
    assert node_config.num_io_threads == 8
    assert node_config.socket_request_max_bytes == 104857600
    assert node_config.log_retention_hours == 168
    assert node_config.log_retention_ms is None
    assert node_config.offsets_topic_replication_factor == 3
    assert node_config.auto_create_topics_enable is True
    assert node_config.group_consumer_assignors == ("uniform", "range")
    assert node_config.log_cleaner_io_max_bytes_per_second == 1.7976931348623157e308
    assert node_config.metrics_port is None
    assert node_config.process_roles == ("broker", "controller")


def test_socket_buffers_and_accept_queues_default_to_the_operating_system() -> None:
    node_config = config()
    assert node_config.socket_send_buffer_bytes == -1
    assert node_config.socket_receive_buffer_bytes == -1
    assert node_config.replica_socket_receive_buffer_bytes == -1
    assert node_config.socket_listen_backlog_size == -1
    assert config(socket_listen_backlog_size="50").socket_listen_backlog_size == 50


def test_metrics_are_served_on_the_loopback_address_unless_their_host_is_set() -> None:
    assert config(listeners="PLAINTEXT://:9092").metrics_address == "127.0.0.1"
    assert config(metrics_host="0.0.0.0").metrics_address == "0.0.0.0"
    assert config(metrics_host="").metrics_address == ""


def test_every_key_has_documentation_and_a_valid_default() -> None:
    assert BROKER_CONFIGS
    for key, definition in BROKER_CONFIGS.items():
        assert definition.documentation.endswith("."), key
        if definition.default_text is not None and key not in ("node.id",):
            assert definition.parse(definition.default_text) == definition.default, key


def test_a_key_is_a_typed_attribute() -> None:
    for key, definition in BROKER_CONFIGS.items():
        attribute = getattr(BrokerConfig, definition.field_name)
        assert isinstance(attribute, Key)
        assert attribute.definition.key == key
    assert ServerKeys.num_io_threads.definition.minimum == 1


def test_broker_id_is_accepted_as_node_id() -> None:
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    assert config().broker_id == 1


def test_unknown_keys_are_reported_once_each_by_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        loaded = BrokerConfig.load("node.id=1\nzookeeper.connect=z\nnum.partition=3\nrsm.config.bucket=b")
    assert loaded.unknown_keys == ("zookeeper.connect", "num.partition")
    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "num.partition" in message] == [
        "Ignoring unknown config num.partition; allowed are the keys of Apache Kafka 4.3 and Tidelog's own;"
        " did you mean num.partitions or offsets.topic.num.partitions?"
    ]
    assert len(messages) == 2


CONTROLLER = {
    "controller_quorum_voters": "1@a:1,2@b:2",
    "controller_listener_names": "CONTROLLER",
    "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"node_id": "-1"}, "node.id"),
        ({"node_id": "x"}, "node.id"),
        ({"broker_id": "2"}, "broker.id"),
        ({"process_roles": "broker"}, "process.roles"),
        ({"process_roles": "broker,zookeeper"}, "process.roles"),
        ({"process_roles": "broker,broker"}, "process.roles"),
        ({"process_roles": "controller"}, "process.roles"),
        ({"controller_quorum_voters": "1@a:1,2@b:2"}, "controller.listener.names"),
        ({"controller_quorum_voters": "1:a:1"}, "controller.quorum.voters"),
        ({"controller_quorum_voters": "1@a:0"}, "controller.quorum.voters"),
        ({"controller_quorum_voters": "1@a:1,1@b:2"}, "controller.quorum.voters"),
        ({"controller_quorum_bootstrap_servers": "a"}, "controller.quorum.bootstrap.servers"),
        ({**CONTROLLER, "controller_quorum_voters": "2@b:2"}, "controller.quorum.voters"),
        ({**CONTROLLER, "listeners": "PLAINTEXT://:1"}, "listeners"),
        ({**CONTROLLER, "process_roles": "controller"}, "listeners"),
        ({**CONTROLLER, "process_roles": "broker"}, "node.id"),
        ({**CONTROLLER, "process_roles": "broker", "controller_quorum_voters": "2@b:2"}, "listeners"),
        ({"num_io_threads": "0"}, "num.io.threads"),
        ({"num_partitions": "many"}, "num.partitions"),
        ({"log_dirs": ""}, "log.dirs"),
        ({"log_dirs": "/a,,/b"}, "log.dirs"),
        ({"log_dirs": "/a,/a"}, "log.dirs"),
        ({"log_dir": ""}, "log.dir"),
        ({"log_dirs": "/a,/b", "cordoned_log_dirs": "/a,/c"}, "cordoned.log.dirs"),
        ({"log_dirs": "/a,/b", "cordoned_log_dirs": "/a,*"}, "cordoned.log.dirs"),
        ({"early_start_listeners": "PLAINTEXT,INTERNAL"}, "early.start.listeners"),
        ({"log_retention_ms": "0"}, "log.retention.ms"),
        ({"log_retention_hours": "0"}, "log.retention.hours"),
        ({"log_roll_ms": "0"}, "log.roll.ms"),
        (
            {"log_cleaner_min_compaction_lag_ms": "9", "log_cleaner_max_compaction_lag_ms": "8"},
            "log.cleaner.min.compaction.lag.ms",
        ),
        ({"log_cleanup_policy": "compact,keep"}, "log.cleanup.policy"),
        ({"fetch_max_bytes": "1023"}, "fetch.max.bytes"),
        ({"queued_max_request_bytes": "5"}, "queued.max.request.bytes"),
        ({"socket_send_buffer_bytes": "0"}, "socket.send.buffer.bytes"),
        ({"replica_socket_receive_buffer_bytes": "0"}, "replica.socket.receive.buffer.bytes"),
        ({"socket_listen_backlog_size": "0"}, "socket.listen.backlog.size"),
        ({"max_connections_per_ip_overrides": "host"}, "max.connections.per.ip.overrides"),
        ({"max_connections_per_ip_overrides": "host:x"}, "max.connections.per.ip.overrides"),
        ({"max_connections_per_ip": "0"}, "max.connections.per.ip"),
        ({"connections_max_idle_ms": "100"}, "connections.max.idle.ms"),
        ({"replica_socket_timeout_ms": "499"}, "replica.socket.timeout.ms"),
        ({"log_cleaner_dedupe_buffer_size": "1048576"}, "log.cleaner.dedupe.buffer.size"),
        ({"listener_name_plaintext_max_connections": "0"}, "listener.name.plaintext.max.connections"),
        ({"listener_name_plaintext_max_connections": "x"}, "listener.name.plaintext.max.connections"),
        ({"default_replication_factor": "0"}, "default.replication.factor"),
        ({"default_replication_factor": "32768"}, "default.replication.factor"),
        (
            {"replica_fetch_wait_max_ms": "30001", "replica_socket_timeout_ms": "40000"},
            "replica.fetch.wait.max.ms",
        ),
        ({"broker_heartbeat_interval_ms": "8000"}, "broker.heartbeat.interval.ms"),
        (
            {"group_min_session_timeout_ms": "9", "group_max_session_timeout_ms": "8"},
            "group.min.session.timeout.ms",
        ),
        ({"group_consumer_session_timeout_ms": "70000"}, "group.consumer.session.timeout.ms"),
        ({"group_share_delivery_count_limit": "11"}, "group.share.delivery.count.limit"),
        ({"offsets_topic_compression_codec": "5"}, "offsets.topic.compression.codec"),
        ({"compression_type": "brotli"}, "compression.type"),
        ({"metrics_port": "70000"}, "metrics.port"),
        ({"metrics_security_protocol": "SASL_SSL"}, "metrics.security.protocol"),
        ({"listeners": "PLAINTEXT://:x"}, "listeners"),
        ({"listeners": ""}, "listeners"),
        ({"listeners": "SSL://:9093"}, "inter.broker.listener.name"),
        ({"listeners": "SASL_SSL://:9093"}, "sasl.enabled.mechanisms"),
        ({"listeners": "PLAINTEXT://:1,SSL://:2", "ssl_protocol": "SSLv3"}, "ssl.protocol"),
        (
            {"listeners": "PLAINTEXT://:1,SSL://:2", "ssl_principal_mapping_rules": "x"},
            "ssl.principal.mapping.rules",
        ),
        ({"listeners": "PLAINTEXT://:1,SSL://:2", "principal_builder_class": "x"}, "principal.builder.class"),
        ({"listeners": "OTHER://:9093"}, "listeners"),
        ({"listeners": "CONTROLLER://:1", "controller_listener_names": "CONTROLLER"}, "listeners"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        ({"advertised_listeners": "PLAINTEXT://[::]:9092"}, "advertised.listeners"),
        ({"advertised_listeners": "SSL://h:9092"}, "advertised.listeners"),
        ({"inter_broker_listener_name": "OTHER"}, "inter.broker.listener.name"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "inter.broker.listener.name",
        ),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "listener.security.protocol.map"),
    ],
)
def test_an_invalid_value_is_refused_with_its_key(values: dict[str, str], key: str) -> None:
    assert refusal(**values).key == key


def test_a_node_id_is_required() -> None:
    with pytest.raises(ConfigError, match=r"node\.id=; must be set"):
        BrokerConfig({})


def test_the_error_message_names_the_allowed_values() -> None:
    line = str(refusal(log_segment_bytes="14"))
    assert (
        line
        == "Invalid configuration value: log.segment.bytes=14; allowed is a 32-bit number of at least 1048576"
    )


@given(st.sampled_from(sorted(BROKER_CONFIGS)), st.text(max_size=12))
@settings(max_examples=300, deadline=None)
def test_random_text_for_any_key_is_accepted_or_a_config_error(key: str, text: str) -> None:
    try:
        BrokerConfig({"node.id": "1", key: text})
    except ConfigError as error:
        assert str(error).isprintable()


def test_settings_of_kafkas_docker_image_are_accepted() -> None:
    loaded = BrokerConfig.load(
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.voters=1@localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        advertised.listeners=PLAINTEXT://broker.example.org:9092
        inter.broker.listener.name=PLAINTEXT
        controller.listener.names=CONTROLLER
        log.dirs=/tmp/kraft-combined-logs
        offsets.topic.replication.factor=1
        """
    )
    assert [listener.name for listener in loaded.broker_listeners] == ["PLAINTEXT"]
    assert [listener.name for listener in loaded.controller_listeners] == ["CONTROLLER"]
    (advertised,) = loaded.advertised("ignored", {})
    assert str(advertised) == "PLAINTEXT://broker.example.org:9092"


def test_a_controller_listener_needs_a_protocol_when_the_map_is_given() -> None:
    values = {
        "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
        "controller_listener_names": "CONTROLLER",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT",
    }
    assert refusal(**values).key == "listeners"


def test_the_advertised_host_defaults_to_the_machines_name() -> None:
    loaded = config(
        listeners="INSIDE://:0,OUTSIDE://10.0.0.1:9093",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="inside",
    )
    advertised = loaded.advertised("my-host", {"INSIDE": 40001})
    assert [str(listener) for listener in advertised] == ["INSIDE://my-host:40001", "OUTSIDE://10.0.0.1:9093"]
    assert loaded.inter_broker_listener == "INSIDE"


def test_several_listeners_may_advertise_one_port() -> None:
    settings = {
        "listeners": "INTERNAL://:9092,EXTERNAL://:9094",
        "advertised_listeners": "INTERNAL://broker-1:9092,EXTERNAL://example.com:9092",
        "listener_security_protocol_map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter_broker_listener_name": "INTERNAL",
    }
    advertised = [str(listener) for listener in config(**settings).advertised("", {})]
    assert advertised == ["INTERNAL://broker-1:9092", "EXTERNAL://example.com:9092"]


def test_log_dirs_overrides_log_dir() -> None:
    assert config(log_dir="/one").log_directories == ("/one",)
    node_config = config(log_dir="/one", log_dirs="/a, /b")
    assert node_config.log_directories == ("/a", "/b")
    assert node_config.metadata_log_directory == "/a"
    assert config(metadata_log_dir="/m").metadata_log_directory == "/m"


def test_topic_defaults_are_taken_from_broker_keys() -> None:
    defaults = config(
        log_retention_hours="2",
        log_segment_bytes="2097152",
        log_roll_hours="1",
        log_roll_jitter_ms="5",
        message_max_bytes="77",
        log_flush_scheduler_interval_ms="1234",
        log_cleanup_policy="compact",
    ).topic_defaults()
    assert defaults["retention.ms"] == "7200000"
    assert defaults["segment.ms"] == "3600000"
    node_config = log_config_from(defaults)
    assert (node_config.retention_ms, node_config.segment_bytes, node_config.segment_jitter_ms) == (
        7_200_000,
        2_097_152,
        5,
    )
    assert (node_config.max_message_bytes, node_config.flush_ms, node_config.cleanup_policy) == (
        77,
        1234,
        ("compact",),
    )


def test_topic_defaults_of_an_empty_file_equal_kafkas() -> None:
    assert log_config_from(config().topic_defaults()) == log_config()


@pytest.mark.parametrize(
    ("values", "retention_ms"),
    [
        ({"log_retention_ms": "5", "log_retention_minutes": "6", "log_retention_hours": "7"}, 5),
        ({"log_retention_minutes": "6", "log_retention_hours": "7"}, 360_000),
        ({"log_retention_ms": "-1", "log_retention_hours": "7"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_the_finest_time_unit_takes_precedence(values: dict[str, str], retention_ms: int) -> None:
    assert log_config_from(config(**values).topic_defaults()).retention_ms == retention_ms


def test_every_synonym_of_a_topic_config_is_a_broker_key_of_the_same_kind() -> None:
    for definition in TOPIC_CONFIGS.values():
        for synonym in definition.synonyms:
            assert synonym.key in BROKER_CONFIGS
            if synonym.factor == 1:
                assert BROKER_CONFIGS[synonym.key].kind is definition.kind


def test_dynamic_settings_override_the_file() -> None:
    static = config(num_io_threads="4", log_retention_minutes="9")
    node_config = static.with_dynamic(
        {"num.io.threads": "5", "log.retention.ms": "7", "num.partitions": "50"}, {"num.io.threads": "6"}
    )
    assert (node_config.num_io_threads, node_config.num_partitions) == (6, 1)
    assert node_config.topic_defaults()["retention.ms"] == "7"
    assert static.with_dynamic({}, {}) is static


def test_dynamic_keys_are_broker_keys() -> None:
    assert set(BROKER_CONFIGS) | set(DYNAMIC_ONLY_CONFIGS) >= DYNAMIC_KEYS
    assert not CLUSTER_WIDE_KEYS & PER_BROKER_KEYS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.example.OtherAuthorizer"),
        ("super.users", "alice"),
        ("super.users", "User:alice;User:"),
    ],
)
def test_an_authorizer_that_does_not_exist_and_a_malformed_super_user_are_rejected(
    key: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(key)):
        config(**{key.replace(".", "_"): value})
