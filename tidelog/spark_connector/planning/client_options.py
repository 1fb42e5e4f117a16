"""Converts `kafka.*` options to options of Tidelog's clients.

A name is Kafka's after `kafka.`, in any case, because Spark passes names in lower case. Options that Spark's
own source rejects, and options that Tidelog's clients do not have, are rejected. Options without a meaning
for these clients are ignored.

Source: the guide to Spark's Kafka integration; ConsumerConfig and ProducerConfig of org.apache.kafka.clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.clients.config.client_config import ClientConfig, ConsumerConfig, ProducerConfig
from tidelog.clients.config.options import ConfigError, similar_options
from tidelog.spark_connector.planning.option_values import CLIENT_PREFIX, OptionError, read_bool

_WITHOUT_EFFECT: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "enable.metrics.push",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    }
)
_TLS_PREFIX: Final = "ssl."
_SASL_PREFIX: Final = "sasl_"


@dataclass(frozen=True, slots=True)
class ClientKind:
    """How `kafka.*` options apply to the source or the sink.

    `rejected` has the options that are not supported, each with the reason or the option to use instead.
    """

    config: type[ClientConfig]
    rejected: Mapping[str, str]
    defaults: Mapping[str, Any]

    @property
    def types(self) -> dict[str, str]:
        """Return the type of each option, as its annotation is written."""
        types = {config_field.name: str(config_field.type) for config_field in fields(self.config)}
        # Objects of Python cannot be written as texts.
        del types["ssl_context"], types["oauth_token_provider"]
        return types


READING: Final = ClientKind(
    ConsumerConfig,
    rejected={
        "auto.offset.reset": "use the option startingOffsets instead",
        "enable.auto.commit": "offsets are stored in Spark's checkpoint",
        "interceptor.classes": "records are not read one by one",
        "key.deserializer": "keys are bytes; convert them in the query",
        "value.deserializer": "values are bytes; convert them in the query",
    },
    # Whole partitions are read in bulk. Kafka's 1 MiB suits responses with many partitions.
    defaults={"max_partition_fetch_bytes": 8 * 1024 * 1024},
)
WRITING: Final = ClientKind(
    ProducerConfig,
    rejected={
        "interceptor.classes": "change records in the query",
        "key.serializer": "the column key is string or binary",
        "partitioner.class": "use the column partition; without it, partitions are chosen as in Kafka",
        "transactional.id": "the sink writes at least once, without transactions",
        "value.serializer": "the column value is string or binary",
    },
    # A task writes as fast as it can. Kafka's 16 KiB suits records that arrive slowly.
    defaults={"batch_size": 128 * 1024},
)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of one client. TLS options have Kafka's names: an SSL context cannot go to executors.

    The representation, which can get into errors and plans, hides all values: some are secrets.
    """

    values: dict[str, Any] = field(repr=False)
    tls: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are hidden."""
        return bool(self.values.get("isolation_level") == "read_committed")

    def admin_values(self) -> dict[str, Any]:
        """Return the options that an admin client has too."""
        return {
            name: value
            for name, value in self.values.items()
            if name in _COMMON or name.startswith(_SASL_PREFIX)
        }


def read_client_options(
    values: Mapping[str, str], kind: ClientKind = READING, *, needs_brokers: bool = True
) -> ClientOptions:
    """Return the client options from the `kafka.*` options in `values`, whose names are in lower case.

    Errors: OptionError, which names the option.
    """
    client_values: dict[str, Any] = dict(kind.defaults)
    types = kind.types
    tls: dict[str, str] = {}
    for option, text in values.items():
        if not option.startswith(CLIENT_PREFIX):
            continue
        name = option.removeprefix(CLIENT_PREFIX)
        if name in kind.rejected:
            raise OptionError(f"option {option} is not supported: {kind.rejected[name]}")
        if name in _WITHOUT_EFFECT:
            continue
        if name.startswith(_TLS_PREFIX):
            tls[name] = text
        else:
            field_name = _field_name(option, name, text, types)
            client_values[field_name] = _value(option, types[field_name], text)
    if needs_brokers and "bootstrap_servers" not in client_values:
        raise OptionError(
            "option kafka.bootstrap.servers is required: host:port of brokers, separated by commas"
        )
    _check(kind.config, client_values)
    return ClientOptions(client_values, tls)


_COMMON: Final = frozenset(
    {
        "bootstrap_servers",
        "client_id",
        "connections_max_idle_ms",
        "metadata_max_age_ms",
        "receive_buffer_bytes",
        "send_buffer_bytes",
        "reconnect_backoff_ms",
        "reconnect_backoff_max_ms",
        "request_timeout_ms",
        "retry_backoff_ms",
        "retry_backoff_max_ms",
        "socket_connection_setup_timeout_ms",
        "security_protocol",
        "default_api_timeout_ms",
        "max_response_bytes",
    }
)


def _field_name(option: str, name: str, text: str, types: Mapping[str, str]) -> str:
    field_name = name.replace(".", "_")
    if field_name not in types:
        raise OptionError(f"Unknown option: {option!r}; {similar_options(field_name, sorted(types))}")
    return field_name


def _value(option: str, kind: str, text: str) -> Any:
    if kind == "bool":
        return read_bool(option, text)
    if kind in ("int", "int | None"):
        try:
            return int(text.strip())
        except ValueError:
            raise OptionError.of(option, text, "a whole number") from None
    if kind.startswith("Sequence"):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text.strip()


def _check(config: type[ClientConfig], values: Mapping[str, Any]) -> None:
    try:
        config(**values)
    except ConfigError as error:
        option = CLIENT_PREFIX + error.option.replace("_", ".")
        raise OptionError.of(option, error.value, error.allowed) from None
