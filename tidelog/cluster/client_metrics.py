"""The configs of client metrics subscriptions, and their validation (KIP-714).

A subscription has three configs:

    interval.ms   the interval at which the clients push their metrics
    metrics       prefixes of the names of the metrics; "*" means all
    match         conditions NAME=PATTERN on the clients; a client must meet all of them

Patterns have the syntax of RE2: the names and addresses of clients are matched on the event loop.

Source: KIP-714; ClientMetricsConfigs and ControllerConfigurationValidator of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.base.config_definition import ConfigDefinition, ConfigError, ConfigKind, ConfigValue, table
from tidelog.base.linear_pattern import LinearPattern
from tidelog.protocol.errors import ErrorCode, KafkaError

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"

DEFAULT_INTERVAL_MS: Final = 300_000
_INTERVAL_MS_MIN: Final = 100
_INTERVAL_MS_MAX: Final = 3_600_000

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"

_CLIENT_ATTRIBUTES: Final = frozenset(
    {
        CLIENT_INSTANCE_ID,
        CLIENT_ID,
        CLIENT_SOFTWARE_NAME,
        CLIENT_SOFTWARE_VERSION,
        CLIENT_SOURCE_ADDRESS,
        CLIENT_SOURCE_PORT,
    }
)


def _items(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    return "allowed is a list of values that are not empty" if "" in value else None


CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigDefinition]] = table(
    (
        ConfigDefinition(
            key=METRICS,
            kind=ConfigKind.LIST,
            default=(),
            documentation="The prefixes of the names of the metrics that clients push; * means all metrics.",
            check=_items,
        ),
        ConfigDefinition(
            key=INTERVAL_MS,
            kind=ConfigKind.INT,
            default=DEFAULT_INTERVAL_MS,
            documentation="The interval in milliseconds at which clients push their metrics.",
        ),
        ConfigDefinition(
            key=MATCH,
            kind=ConfigKind.LIST,
            default=(),
            documentation="The conditions on clients, each the name of an attribute, = and a pattern.",
            check=_items,
        ),
    )
)


def check_client_metrics(subscription: str, configs: Mapping[str, str]) -> None:
    """Raise KafkaError if `configs`, all configs of a subscription after a change, are invalid."""
    if not subscription:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in configs:
        if key not in CLIENT_METRICS_CONFIGS:
            text = f"Unknown client metrics configuration: {key}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    values = {}
    for key, text in configs.items():
        try:
            values[key] = CLIENT_METRICS_CONFIGS[key].parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval_ms = values.get(INTERVAL_MS, DEFAULT_INTERVAL_MS)
    assert isinstance(interval_ms, int)
    if not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        text = (
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between {_INTERVAL_MS_MIN}"
            f" and {_INTERVAL_MS_MAX} (1 hour)"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    conditions = values.get(MATCH, ())
    assert isinstance(conditions, tuple)
    parse_match(conditions)


def parse_match(conditions: tuple[str, ...]) -> dict[str, LinearPattern]:
    """Return the pattern for each attribute of a client that must match.

    Of two conditions on the same attribute, the last one counts, as in Kafka.
    Errors: KafkaError INVALID_CONFIG.
    """
    patterns = {}
    for condition in conditions:
        # Kafka's split ignores trailing empty parts.
        parts = condition.rstrip("=").split("=")
        name = parts[0].strip()
        if len(parts) != 2 or name not in _CLIENT_ATTRIBUTES:
            raise _illegal(condition)
        try:
            patterns[name] = LinearPattern(parts[1].strip())
        except ValueError:
            raise _illegal(condition) from None
    return patterns


def _illegal(condition: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {condition}")
