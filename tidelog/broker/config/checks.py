"""Checks that compare several keys, and checks beyond the bounds of one key.

Errors: ConfigError. Source: KafkaConfig.validateValues and related methods of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.console_config import console_config
from tidelog.broker.config.listener_tls import listener_principal_mapper, listener_tls_settings, uses_tls
from tidelog.broker.config.sasl_config import check_sasl
from tidelog.broker.config.settings import BrokerSettings
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS, log_config_from

STORAGE_MANAGER_CLASSES: Final = ("bundled", "io.aiven.kafka.tieredstorage.RemoteStorageManager")
"""Class names that select the built-in storage manager, which is also the default."""
METADATA_MANAGER_CLASSES: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    "bundled",
)
"""Class names that select the built-in metadata manager."""

AUTHORIZER_CLASS: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only authorizer class that is allowed."""

_LISTENER_LIMIT: Final = re.compile(r"listener\.name\.[^.]+\.max\.connections")
_INT_MAX: Final = 2**31 - 1
_DEDUPE_BYTES_MIN: Final = 1024 * 1024


def check_config(config: BrokerSettings) -> None:
    """Raise ConfigError for the first setting that contradicts another one."""
    for check in _CHECKS:
        check(config)


def check_listeners(config: BrokerSettings) -> None:
    """Raise ConfigError for listeners that contradict each other or cannot be served."""
    listeners_text = ",".join(config.listeners)
    if config.is_broker and not config.broker_listeners:
        allowed = "allowed is at least one that is not in controller.listener.names"
        raise ConfigError("listeners", listeners_text, allowed)
    _check_listener_security(config)
    _check_early_listeners(config)
    names = [listener.name for listener in config.advertised("", {})]
    for listener in config.advertised("localhost", {}):
        if listener.host in ("0.0.0.0", "::"):
            allowed = "clients cannot connect to this address; set another one in advertised.listeners"
            raise ConfigError("advertised.listeners", listener, allowed)
        if listener.name not in {own.name for own in config.broker_listeners}:
            allowed = f"allowed is the name of one of listeners, which are {listeners_text}"
            raise ConfigError("advertised.listeners", listener, allowed)
    if config.is_broker and config.inter_broker_listener not in names:
        allowed = f"allowed is one of the advertised listeners: {', '.join(names)}"
        raise ConfigError("inter.broker.listener.name", config.inter_broker_listener, allowed)
    if config.is_broker and config.remote_log_storage_system_enable and config.metadata_listener not in names:
        allowed = f"allowed is one of the advertised listeners: {', '.join(names)}"
        raise ConfigError("remote.log.metadata.manager.listener.name", config.metadata_listener, allowed)


def _check_listener_security(config: BrokerSettings) -> None:
    """Raise ConfigError for settings of TLS and SASL that are not allowed."""
    controllers = [config.listener_of_nodes(name.upper()) for name in config.controller_listener_names]
    for listener in (*config.own_listeners, *controllers):
        if uses_tls(listener):
            listener_tls_settings(config, listener)
            listener_principal_mapper(config, listener)
    check_sasl(config)
    console_config(config)


def _check_early_listeners(config: BrokerSettings) -> None:
    names = {each.name for each in config.own_listeners} | {
        name.upper() for name in config.controller_listener_names
    }
    for name in config.early_start_listeners or ():
        if name and name.upper() not in names:
            allowed = f"allowed are listeners and controller.listener.names: {', '.join(sorted(names))}"
            raise ConfigError("early.start.listeners", name, allowed)


def _check_authorizer(config: BrokerSettings) -> None:
    name = config.authorizer_class_name
    if name not in ("", AUTHORIZER_CLASS):
        raise ConfigError("authorizer.class.name", name, f"allowed is {AUTHORIZER_CLASS}, or nothing")
    for user in config.super_users.split(";"):
        principal_type, _, user_name = user.strip().partition(":")
        if user.strip() and not (principal_type and user_name):
            raise ConfigError("super.users", user, "allowed are principals like User:name, separated by ;")


def _check_node(config: BrokerSettings) -> None:
    if config.node_id < 0:
        raise ConfigError("node.id", "", "must be set to a number of at least 0")
    if config.broker_id not in (-1, config.node_id):
        raise ConfigError("broker.id", config.broker_id, f"must be the node.id, which is {config.node_id}")


def _check_directories(config: BrokerSettings) -> None:
    key = "log.dirs" if config.log_dirs is not None else "log.dir"
    directories = config.log_directories
    if not directories or not all(directories):
        raise ConfigError(key, ",".join(directories), "allowed is at least one directory, none of them empty")
    if len(set(directories)) != len(directories):
        raise ConfigError(key, ",".join(directories), "allowed is each directory once")
    cordoned = config.cordoned_log_dirs
    if cordoned != ("*",) and not set(cordoned) <= set(directories):
        allowed = f"allowed is * or directories of {key}, which are {','.join(directories)}"
        raise ConfigError("cordoned.log.dirs", ",".join(cordoned), allowed)


def _check_retention(config: BrokerSettings) -> None:
    keys = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    for key in keys:
        value = config.values[key]
        if value is not None:
            if value == 0:
                raise ConfigError(key, value, "allowed is -1 for no limit, or a number of at least 1")
            return


def _check_topic_defaults(config: BrokerSettings) -> None:
    try:
        log_config_from(config.topic_defaults())
    except ConfigError as error:
        raise ConfigError(_broker_key(config, error.key), error.value, error.allowed) from None


def _broker_key(config: BrokerSettings, topic_key: str) -> str:
    synonym = config.effective_synonym(TOPIC_CONFIGS[topic_key])
    return synonym.key if synonym is not None else topic_key


def _check_network(config: BrokerSettings) -> None:
    if config.inter_broker_listener_name is not None and "security.inter.broker.protocol" in config.explicit:
        allowed = "allowed is this or security.inter.broker.protocol, not both"
        raise ConfigError("inter.broker.listener.name", config.inter_broker_listener_name, allowed)
    queued_bytes = config.queued_max_request_bytes
    if 0 < queued_bytes < config.socket_request_max_bytes:
        allowed = f"allowed is -1 or at least socket.request.max.bytes, {config.socket_request_max_bytes}"
        raise ConfigError("queued.max.request.bytes", queued_bytes, allowed)
    for key in (
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "replica.socket.receive.buffer.bytes",
        "socket.listen.backlog.size",
    ):
        value = config.values[key]
        if isinstance(value, int) and (value == 0 or value < -1):
            raise ConfigError(key, value, "allowed is -1, or a number of at least 1")
    delay_ms = config.connection_failed_authentication_delay_ms
    if 0 <= config.connections_max_idle_ms <= delay_ms:
        allowed = f"allowed is -1, or more than connection.failed.authentication.delay.ms, {delay_ms}"
        raise ConfigError("connections.max.idle.ms", config.connections_max_idle_ms, allowed)
    _check_connection_overrides(config)
    _check_listener_limits(config)


def _check_listener_limits(config: BrokerSettings) -> None:
    for key, text in config.explicit.items():
        if _LISTENER_LIMIT.fullmatch(key):
            count = text.strip()
            if not (count.isascii() and count.isdecimal() and 1 <= int(count[:11]) <= _INT_MAX):
                raise ConfigError(key, text, f"allowed is a 32-bit number from 1 to {_INT_MAX}")


def _check_connection_overrides(config: BrokerSettings) -> None:
    key = "max.connections.per.ip.overrides"
    for item in config.max_connections_per_ip_overrides.split(","):
        address, _, count = item.strip().rpartition(":")
        if item.strip() and not (address and count.isascii() and count.isdigit()):
            raise ConfigError(
                key, item, "allowed is address:count, where the count is a number of at least 0"
            )
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        allowed = f"0 is allowed only together with {key}"
        raise ConfigError("max.connections.per.ip", 0, allowed)


def _check_compaction(config: BrokerSettings) -> None:
    threads, size_bytes = config.log_cleaner_threads, config.log_cleaner_dedupe_buffer_size
    if threads > 0 and size_bytes // threads <= _DEDUPE_BYTES_MIN:
        allowed = f"allowed is more than {_DEDUPE_BYTES_MIN} for each of log.cleaner.threads, {threads}"
        raise ConfigError("log.cleaner.dedupe.buffer.size", size_bytes, allowed)


def _check_replication(config: BrokerSettings) -> None:
    if config.replica_fetch_wait_max_ms > config.replica_socket_timeout_ms:
        allowed = f"allowed is at least replica.fetch.wait.max.ms, {config.replica_fetch_wait_max_ms}"
        raise ConfigError("replica.socket.timeout.ms", config.replica_socket_timeout_ms, allowed)
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        allowed = f"allowed is at most replica.lag.time.max.ms, {config.replica_lag_time_max_ms}"
        raise ConfigError("replica.fetch.wait.max.ms", config.replica_fetch_wait_max_ms, allowed)
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        allowed = f"allowed is at most half of broker.session.timeout.ms, {config.broker_session_timeout_ms}"
        raise ConfigError("broker.heartbeat.interval.ms", config.broker_heartbeat_interval_ms, allowed)
    if not 1 <= config.default_replication_factor <= 2**15 - 1:
        allowed = "allowed is a number from 1 to 32767"
        raise ConfigError("default.replication.factor", config.default_replication_factor, allowed)


def _check_groups(config: BrokerSettings) -> None:
    _check_order(config, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    for kind in ("consumer", "share", "streams"):
        for setting in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms"):
            lower_key, upper_key = f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
            _check_order(config, lower_key, upper_key)
            _check_order(config, lower_key, f"group.{kind}.{setting}")
            _check_order(config, f"group.{kind}.{setting}", upper_key)
    if not 0 <= config.offsets_topic_compression_codec <= 4:
        allowed = "allowed is 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)"
        raise ConfigError("offsets.topic.compression.codec", config.offsets_topic_compression_codec, allowed)


def _check_remote(config: BrokerSettings) -> None:
    if not config.remote_log_storage_system_enable:
        return
    for key, allowed in (
        ("remote.log.storage.manager.class.name", STORAGE_MANAGER_CLASSES),
        ("remote.log.metadata.manager.class.name", METADATA_MANAGER_CLASSES),
    ):
        name = config.values[key]
        if name is not None and name not in allowed:
            raise ConfigError(key, name, f"allowed is one of: {', '.join(allowed)}")


def _check_order(config: BrokerSettings, lower_key: str, upper_key: str) -> None:
    lower, upper = config.values[lower_key], config.values[upper_key]
    assert isinstance(lower, int) and isinstance(upper, int)
    if lower > upper:
        raise ConfigError(lower_key, lower, f"allowed is at most {upper_key}, {upper}")


_CHECKS: Final[tuple[Callable[[BrokerSettings], None], ...]] = (
    _check_node,
    _check_directories,
    _check_retention,
    _check_topic_defaults,
    _check_network,
    _check_compaction,
    _check_replication,
    _check_groups,
    _check_remote,
    _check_authorizer,
)
