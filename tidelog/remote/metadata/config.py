"""The configuration of the topic-based metadata manager: Kafka's keys, without the prefix `rlmm.config.`.

Source: TopicBasedRemoteLogMetadataManagerConfig of Apache Kafka 4.3; KIP-1235 (min.isr).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.base.config_definition import ConfigDefinition, ConfigKind, ConfigValue, parse_values, table
from tidelog.base.dataclass import dataclass

METADATA_TOPIC: Final = "__remote_log_metadata"
_COMMON: Final = "remote.log.metadata.common.client."
_TOPIC: Final = "remote.log.metadata.topic"
_RETRY: Final = "remote.log.metadata.initialization.retry"


def _check_retention(value: ConfigValue) -> str | None:
    return "allowed is -1 or at least 1" if value == 0 else None


_FIELDS: Final = {
    "partitions": ConfigDefinition(
        key=f"{_TOPIC}.num.partitions",
        kind=ConfigKind.INT,
        default=50,
        minimum=1,
        documentation=(
            "The number of partitions of the metadata topic. Do not change it after the topic has been "
            "created."
        ),
    ),
    "replication_factor": ConfigDefinition(
        key=f"{_TOPIC}.replication.factor",
        kind=ConfigKind.SHORT,
        default=3,
        minimum=1,
        documentation="The replication factor of the metadata topic.",
    ),
    "retention_ms": ConfigDefinition(
        key=f"{_TOPIC}.retention.ms",
        kind=ConfigKind.LONG,
        default=-1,
        minimum=-1,
        check=_check_retention,
        documentation=(
            "The time in milliseconds for which records of the metadata topic are retained. -1 means no "
            "limit."
        ),
    ),
    "min_isr": ConfigDefinition(
        key=f"{_TOPIC}.min.isr",
        kind=ConfigKind.SHORT,
        default=2,
        minimum=1,
        documentation=(
            "The topic config min.insync.replicas of the metadata topic; at most the replication factor "
            "is used."
        ),
    ),
    "consume_wait_ms": ConfigDefinition(
        key="remote.log.metadata.consume.wait.ms",
        kind=ConfigKind.LONG,
        default=120_000,
        minimum=0,
        documentation=(
            "The maximum time in milliseconds to wait until a record that was written has been read back."
        ),
    ),
    "initialization_retry_max_timeout_ms": ConfigDefinition(
        key=f"{_RETRY}.max.timeout.ms",
        kind=ConfigKind.LONG,
        default=120_000,
        minimum=0,
        documentation="The maximum time in milliseconds to reach the metadata topic at the start.",
    ),
    "initialization_retry_interval_ms": ConfigDefinition(
        key=f"{_RETRY}.interval.ms",
        kind=ConfigKind.LONG,
        default=100,
        minimum=0,
        documentation="The initial time in milliseconds before a failed initialization is retried.",
    ),
}
CONFIGS: Final = table(_FIELDS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopicConfig:
    """The settings of the metadata topic and the timeouts of its users."""

    partitions: int
    replication_factor: int
    retention_ms: int
    min_isr: int
    consume_wait_ms: int
    initialization_retry_max_timeout_ms: int
    initialization_retry_interval_ms: int

    @classmethod
    def of(cls, values: Mapping[str, str]) -> MetadataTopicConfig:
        """Return the settings in `values`; other keys are ignored. Errors: ConfigError."""
        parsed = parse_values(CONFIGS, values)
        numbers: dict[str, int] = {}
        for name, definition in _FIELDS.items():
            value = parsed[definition.key]
            assert isinstance(value, int), definition.key
            numbers[name] = value
        return cls(**numbers)

    @property
    def topic_configs(self) -> dict[str, str]:
        """The configs that the metadata topic is created with.

        `min_isr` is limited to the replication factor: otherwise no record could be written.
        """
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "min.insync.replicas": str(min(self.min_isr, self.replication_factor)),
            "remote.storage.enable": "false",
        }


def client_options(values: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the options in `values` for one `kind` of client: producer, consumer or admin.

    The names are Kafka's, with underscores. Options of one kind override those of all clients.
    """
    prefix_of_kind = f"remote.log.metadata.{kind}."
    return {
        key.removeprefix(prefix).replace(".", "_"): value
        for prefix in (_COMMON, prefix_of_kind)
        for key, value in values.items()
        if key.startswith(prefix)
    }
