"""`kafka.*` options as options of our clients.

Names are Kafka's behind `kafka.`, in any case, as Spark hands them on in lower case. What Spark's own source
refuses is refused, and so is what our clients do not have; what has no meaning for them is left aside.

Source: the guide to Spark's Kafka integration; org.apache.kafka.clients.consumer.ConsumerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from clients.config import ConsumerConfig
from clients.options import ConfigError, unknown_option
from spark_connector.planning.option_values import OptionError, read_bool

PREFIX: Final = "kafka."

_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "the option startingOffsets instead",
    "enable.auto.commit": "nothing: offsets are kept in Spark's checkpoint",
    "interceptor.classes": "nothing: records are not read one by one",
    "key.deserializer": "nothing: keys are bytes, to be converted in the query",
    "value.deserializer": "nothing: values are bytes, to be converted in the query",
}
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
# Whole partitions are read in bulk: Kafka's 1 MiB is made for many partitions in one answer.
_DEFAULTS: Final[Mapping[str, Any]] = {"max_partition_fetch_bytes": 8 * 1024 * 1024}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of `ConsumerConfig`; and those of TLS by Kafka's names, as a context cannot go to executors."""

    values: dict[str, Any]
    tls: dict[str, str] = field(default_factory=dict)

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions stay hidden."""
        return bool(self.values.get("isolation_level") == "read_committed")

    def admin_values(self) -> dict[str, Any]:
        """Those that an admin client has as well."""
        return {name: value for name, value in self.values.items() if name in _COMMON}


def read_client_options(values: Mapping[str, str]) -> ClientOptions:
    """The `kafka.*` options among `values`, whose names are in lower case.

    Errors: OptionError naming the option.
    """
    found: dict[str, Any] = dict(_DEFAULTS)
    tls: dict[str, str] = {}
    for option, text in values.items():
        if not option.startswith(PREFIX):
            continue
        name = option.removeprefix(PREFIX)
        if name in _REFUSED:
            raise OptionError(f"option {option} is not supported: use {_REFUSED[name]}")
        if name in _WITHOUT_EFFECT:
            continue
        if name.startswith("sasl.") or (name == "security.protocol" and "SASL" in text.upper()):
            raise OptionError.of(
                option, text, "security.protocol PLAINTEXT or SSL: these clients have no SASL yet"
            )
        if name.startswith(_TLS_PREFIX):
            tls[name] = text
        else:
            wanted = _field_of(option, name, text)
            found[wanted] = _value(option, _TYPES[wanted], text)
    if "bootstrap_servers" not in found:
        raise OptionError(
            "option kafka.bootstrap.servers is needed: host:port of brokers, with commas between them"
        )
    _check(found)
    return ClientOptions(found, tls)


_TYPES: Final = {one.name: str(one.type) for one in fields(ConsumerConfig)}
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


def _field_of(option: str, name: str, text: str) -> str:
    wanted = name.replace(".", "_")
    if wanted not in _TYPES or wanted == "ssl_context":
        raise OptionError(f"option {option}: {unknown_option(wanted, text, _TYPES)}")
    return wanted


def _value(option: str, kind: str, text: str) -> Any:
    if kind == "bool":
        return read_bool(option, text)
    if kind == "int":
        try:
            return int(text.strip())
        except ValueError:
            raise OptionError.of(option, text, "a whole number") from None
    if kind.startswith("Sequence"):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text.strip()


def _check(values: Mapping[str, Any]) -> None:
    try:
        ConsumerConfig(**values)
    except ConfigError as error:
        raise OptionError(f"option {PREFIX}{error.option.replace('_', '.')}: {error}") from None
