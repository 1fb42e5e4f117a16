"""Converts `kafka.*` options to options of Tidelog's clients.

A name is Kafka's after `kafka.`, in any case, because Spark passes names in lower case. Options that Spark's
own source rejects, and options that Tidelog's clients do not have, are rejected. Options without a meaning
for these clients are ignored.

Source: the guide to Spark's Kafka integration; ConsumerConfig and ProducerConfig of org.apache.kafka.clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

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
    """How `kafka.*` options apply to the source or the sink; `refused` says what to use instead."""

    config: type[ClientConfig]
    refused: Mapping[str, str]
    defaults: Mapping[str, Any]

    @property
    def types(self) -> dict[str, str]:
        """Return the type of each option, as its annotation is written."""
        own = {one.name: str(one.type) for one in fields(self.config)}
        # Objects of Python cannot be written as texts.
        del own["ssl_context"], own["oauth_token_provider"]
        return own


READING: Final = ClientKind(
    ConsumerConfig,
    refused={
        "auto.offset.reset": "the option startingOffsets instead",
        "enable.auto.commit": "nothing: offsets are stored in Spark's checkpoint",
        "interceptor.classes": "nothing: records are not read one by one",
        "key.deserializer": "nothing: keys are bytes; convert them in the query",
        "value.deserializer": "nothing: values are bytes; convert them in the query",
    },
    # Whole partitions are read in bulk. Kafka's 1 MiB suits responses with many partitions.
    defaults={"max_partition_fetch_bytes": 8 * 1024 * 1024},
)
WRITING: Final = ClientKind(
    ProducerConfig,
    refused={
        "interceptor.classes": "nothing: change records in the query",
        "key.serializer": "nothing: the column key is string or binary",
        "partitioner.class": "the column partition; without it partitions are chosen as by Kafka's clients",
        "transactional.id": "nothing: the sink writes at least once, without transactions",
        "value.serializer": "nothing: the column value is string or binary",
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
    found: dict[str, Any] = dict(kind.defaults)
    types = kind.types
    tls: dict[str, str] = {}
    for option, text in values.items():
        if not option.startswith(CLIENT_PREFIX):
            continue
        name = option.removeprefix(CLIENT_PREFIX)
        if name in kind.refused:
            raise OptionError(f"option {option} is not supported: use {kind.refused[name]}")
        if name in _WITHOUT_EFFECT:
            continue
        if name.startswith(_TLS_PREFIX):
            tls[name] = text
        else:
            wanted = _field_of(option, name, text, types)
            found[wanted] = _value(option, types[wanted], text)
    if needs_brokers and "bootstrap_servers" not in found:
        raise OptionError(
            "option kafka.bootstrap.servers is required: host:port of brokers, separated by commas"
        )
    _check(kind.config, found)
    return ClientOptions(found, tls)


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


def _field_of(option: str, name: str, text: str, types: Mapping[str, str]) -> str:
    wanted = name.replace(".", "_")
    if wanted not in types:
        raise OptionError(f"Unknown option: {option!r}; {similar_options(wanted, sorted(types))}")
    return wanted


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
