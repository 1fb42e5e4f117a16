"""`kafka.*` options as options of our clients.

Names are Kafka's behind `kafka.`, in any case, as Spark hands them on in lower case. What Spark's own source
refuses is refused, and so is what our clients do not have; what has no meaning for them is left aside.

Source: the guide to Spark's Kafka integration; ConsumerConfig and ProducerConfig of org.apache.kafka.clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from tidelog.clients.config.client_config import ClientConfig, ConsumerConfig, ProducerConfig
from tidelog.clients.config.options import ConfigError, unknown_option
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


@dataclass(frozen=True, slots=True)
class ClientKind:
    """What `kafka.*` means for the source or for the sink: `refused` says what to use instead."""

    config: type[ClientConfig]
    refused: Mapping[str, str]
    defaults: Mapping[str, Any]

    @property
    def types(self) -> dict[str, str]:
        """The type of each option, as it is written."""
        own = {one.name: str(one.type) for one in fields(self.config)}
        del own["ssl_context"]
        return own


READING: Final = ClientKind(
    ConsumerConfig,
    refused={
        "auto.offset.reset": "the option startingOffsets instead",
        "enable.auto.commit": "nothing: offsets are kept in Spark's checkpoint",
        "interceptor.classes": "nothing: records are not read one by one",
        "key.deserializer": "nothing: keys are bytes, to be converted in the query",
        "value.deserializer": "nothing: values are bytes, to be converted in the query",
    },
    # Whole partitions are read in bulk: Kafka's 1 MiB is made for many partitions in one answer.
    defaults={"max_partition_fetch_bytes": 8 * 1024 * 1024},
)
WRITING: Final = ClientKind(
    ProducerConfig,
    refused={
        "interceptor.classes": "nothing: records are changed in the query",
        "key.serializer": "nothing: the column key is string or binary",
        "partitioner.class": "the column partition; without it keys go where Kafka's own clients put them",
        "transactional.id": "nothing: the sink writes at least once, without transactions",
        "value.serializer": "nothing: the column value is string or binary",
    },
    # A task writes as fast as it can: Kafka's 16 KiB is made for records that trickle in.
    defaults={"batch_size": 128 * 1024},
)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of one of our clients; those of TLS by Kafka's names, as a context cannot go to executors."""

    values: dict[str, Any]
    tls: dict[str, str] = field(default_factory=dict)

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions stay hidden."""
        return bool(self.values.get("isolation_level") == "read_committed")

    def admin_values(self) -> dict[str, Any]:
        """Those that an admin client has as well."""
        return {name: value for name, value in self.values.items() if name in _COMMON}


def read_client_options(
    values: Mapping[str, str], kind: ClientKind = READING, *, needs_brokers: bool = True
) -> ClientOptions:
    """The `kafka.*` options among `values`, whose names are in lower case.

    Errors: OptionError naming the option.
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
        if name.startswith("sasl.") or (name == "security.protocol" and "SASL" in text.upper()):
            raise OptionError.of(
                option, text, "security.protocol PLAINTEXT or SSL: these clients have no SASL yet"
            )
        if name.startswith(_TLS_PREFIX):
            tls[name] = text
        else:
            wanted = _field_of(option, name, text, types)
            found[wanted] = _value(option, types[wanted], text)
    if needs_brokers and "bootstrap_servers" not in found:
        raise OptionError(
            "option kafka.bootstrap.servers is needed: host:port of brokers, with commas between them"
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
        raise OptionError(f"option {option}: {unknown_option(wanted, text, types)}")
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
        raise OptionError(f"option {CLIENT_PREFIX}{error.option.replace('_', '.')}: {error}") from None
