"""The client metrics subscriptions of the cluster, and what a client must push because of them.

Source: KIP-714; ClientMetricsManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from crc32c import crc32c

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.base.linear_pattern import LinearPattern
from tidelog.cluster.client_metrics import (
    CLIENT_METRICS_CONFIGS,
    DEFAULT_INTERVAL_MS,
    INTERVAL_MS,
    MATCH,
    METRICS,
    parse_match,
)
from tidelog.cluster.image import ConfigResource, MetadataImage, ResourceType
from tidelog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

ALL_METRICS: Final = "*"
_INT_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSubscription:
    """One subscription: the prefixes of metrics, their interval, and the clients to which it applies."""

    metrics: tuple[str, ...]
    push_interval_ms: int
    match: Mapping[str, LinearPattern]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether the subscription applies to the client with these attributes."""
        return all(
            name in attributes and pattern.matches(attributes[name]) for name, pattern in self.match.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedMetrics:
    """What one client pushes. No metrics are requested if no subscription applies to it."""

    metrics: tuple[str, ...]
    push_interval_ms: int

    def subscription_id(self, client_instance_id: UUID) -> int:
        """Return the id that changes when the requested metrics or their interval change.

        It is Kafka's id for up to one prefix. The order of several ones is not defined in Kafka.
        """
        text = f"[{', '.join(self.metrics)}]{self.push_interval_ms}"
        checksum: int = crc32c(text.encode())
        return _signed(checksum ^ _java_hash(client_instance_id))


class MetricsSubscriptions:
    """The subscriptions in the metadata; `version` changes whenever they change."""

    def __init__(self) -> None:
        self.version = 0
        self._subscriptions: dict[str, MetricsSubscription] = {}

    def update(self, image: MetadataImage, changed: Sequence[ConfigResource]) -> None:
        """Apply the changed resources with configs; other resources are ignored."""
        for resource in changed:
            kind, name = resource
            if kind != ResourceType.CLIENT_METRICS:
                continue
            self.version += 1
            self._subscriptions.pop(name, None)
            configs = image.configs.get(resource)
            subscription = None if configs is None else _parse(name, configs)
            if subscription is not None:
                self._subscriptions[name] = subscription

    def requested_of(self, attributes: Mapping[str, str]) -> RequestedMetrics:
        """Return the metrics of all subscriptions that apply to a client, and their shortest interval.

        As in Kafka, the interval is never longer than the default.
        """
        applicable = [each for each in self._subscriptions.values() if each.matches(attributes)]
        prefixes = {prefix for each in applicable for prefix in each.metrics}
        return RequestedMetrics(
            metrics=(ALL_METRICS,) if ALL_METRICS in prefixes else tuple(sorted(prefixes)),
            push_interval_ms=min([DEFAULT_INTERVAL_MS, *(each.push_interval_ms for each in applicable)]),
        )


def _parse(name: str, configs: Mapping[str, str]) -> MetricsSubscription | None:
    """Return the subscription; None, with a log line, for patterns that only Apache Kafka accepts."""
    try:
        values = {
            key: definition.parse(configs[key]) if key in configs else definition.default
            for key, definition in CLIENT_METRICS_CONFIGS.items()
        }
        metrics, interval_ms, conditions = values[METRICS], values[INTERVAL_MS], values[MATCH]
        assert isinstance(metrics, tuple) and isinstance(interval_ms, int) and isinstance(conditions, tuple)
        return MetricsSubscription(
            metrics=metrics, push_interval_ms=interval_ms, match=parse_match(conditions)
        )
    except (ConfigError, KafkaError) as error:
        logger.warning("Client metrics subscription %s is not used: %s", name, error)
        return None


def _java_hash(value: UUID) -> int:
    """Return the hash code of the id in Kafka, as an unsigned number."""
    folded = (value.int >> 64) ^ (value.int & ((1 << 64) - 1))
    return (folded >> _INT_BITS) ^ (folded & ((1 << _INT_BITS) - 1))


def _signed(value: int) -> int:
    return value - (1 << _INT_BITS) if value >> (_INT_BITS - 1) else value
