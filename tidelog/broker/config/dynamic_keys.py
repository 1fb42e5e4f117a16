"""The broker keys that may change while the broker runs, and whether they are cluster-wide or per broker.

A cluster-wide key may be set for all brokers (resource name "") or for one; a per-broker key only for one.
Keys with the prefix `listener.name.<name>.` are per broker, except for three.

Source: DynamicBrokerConfig and DynamicConfig.Broker of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.base.config_definition import ConfigDefinition, ConfigKind, table
from tidelog.broker.config.keys.key import NO_LIMIT

CLUSTER_WIDE_KEYS: Final = frozenset(
    {
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "config.providers",
        "follower.fetch.last.tiered.offset.enable",
        "follower.replication.throttled.rate",
        "group.consumer.assignment.interval.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "leader.replication.throttled.rate",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    }
)

PER_BROKER_KEYS: Final = frozenset(
    {
        "cordoned.log.dirs",
        "listener.security.protocol.map",
        "listeners",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

DYNAMIC_KEYS: Final = CLUSTER_WIDE_KEYS | PER_BROKER_KEYS

LISTENER_SECURITY_KEYS: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Per-broker keys that are allowed only with the prefix of a listener.

Other keys that begin with `ssl.` or `sasl.` need no prefix.
"""

SASL_KEYS: Final = (
    "sasl.jaas.config",
    "sasl.enabled.mechanisms",
    "connections.max.reauth.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
)
"""Keys that apply to the next authentication on a listener with SASL, of clients or of this node.

They may have the prefix of a listener, and all except the second one also that of a mechanism.
"""

PEER_MECHANISM_KEY: Final = "sasl.mechanism.inter.broker.protocol"
"""Applies to new connections to other brokers; never has a prefix."""

CLUSTER_WIDE_LISTENER_KEYS: Final = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
"""Keys that may be set for all brokers even with the prefix of a listener."""

LISTENER_KEYS: Final = PER_BROKER_KEYS - {"cordoned.log.dirs"} | CLUSTER_WIDE_LISTENER_KEYS
"""Keys that listeners depend on."""

POSITIVE_KEYS: Final = frozenset({"max.connection.creation.rate", "max.connections"})
"""Keys whose dynamic value must be at least 1, although 0 is allowed in the file."""

THREAD_COUNT_KEYS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Keys that may change by at most a factor of two at a time."""

_LISTENER_KEY: Final = re.compile(r"listener\.name\.([^.]*)\.(.*)")


class ListenerKey(NamedTuple):
    """`listener.name.<listener>.<base>`, or a plain key without a listener."""

    listener: str | None
    base: str


def listener_and_base(key: str) -> ListenerKey:
    """Return the listener that a key is for, None for all, and the key without the prefix."""
    match = _LISTENER_KEY.fullmatch(key)
    return ListenerKey(None, key) if match is None else ListenerKey(match[1], match[2])


def is_of_one_broker(key: str) -> bool:
    """Return whether a key can be set for one broker only, not for all."""
    listener, base = listener_and_base(key)
    return key in PER_BROKER_KEYS if listener is None else base not in CLUSTER_WIDE_LISTENER_KEYS


def _rate(key: str, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(
        key=key, kind=ConfigKind.LONG, default=NO_LIMIT, documentation=documentation, minimum=0
    )


DYNAMIC_ONLY_CONFIGS: Final[Mapping[str, ConfigDefinition]] = table(
    (
        _rate("leader.replication.throttled.rate", "Bytes per second a leader sends to throttled replicas."),
        _rate(
            "follower.replication.throttled.rate",
            "Bytes per second a follower fetches for throttled replicas.",
        ),
        _rate(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "Bytes per second at which replicas move between directories.",
        ),
    )
)
"""Keys that are not allowed in server.properties and can only be set while the broker runs."""
