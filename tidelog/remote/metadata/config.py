"""What can be told to the topic-based metadata manager: Kafka's names, without the prefix `rlmm.config.`.

Source: TopicBasedRemoteLogMetadataManagerConfig of Apache Kafka 4.3; KIP-1235 (min.isr).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

METADATA_TOPIC: Final = "__remote_log_metadata"
_COMMON: Final = "remote.log.metadata.common.client."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopicConfig:
    """Settings of the metadata topic and of waiting for it.

    Errors: ValueError, naming the key, for what is no number or out of bounds.
    """

    partitions: int = 50
    replication_factor: int = 3
    retention_ms: int = -1
    min_isr: int = 2
    consume_wait_ms: int = 120_000
    initialization_retry_max_timeout_ms: int = 120_000
    initialization_retry_interval_ms: int = 100

    @classmethod
    def of(cls, values: Mapping[str, str]) -> MetadataTopicConfig:
        """The settings in `values`; keys that are not ours are left alone."""
        given = {name: _number(key, values[key], least) for name, key, least in _KEYS if key in values}
        if given.get("retention_ms") == 0:
            raise ValueError("remote.log.metadata.topic.retention.ms=0: expected -1 or at least 1")
        return cls(**given)

    @property
    def topic_configs(self) -> dict[str, str]:
        """Return the configs that the metadata topic is created with.

        `min_isr` counts up to the replication factor: with more no record could be written.
        """
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "min.insync.replicas": str(min(self.min_isr, self.replication_factor)),
            "remote.storage.enable": "false",
        }


def client_options(values: Mapping[str, str], kind: str) -> dict[str, str]:
    """Options for the clients of `kind` (producer, consumer, admin), by Kafka's names with underscores."""
    own = f"remote.log.metadata.{kind}."
    return {
        key.removeprefix(prefix).replace(".", "_"): value
        for prefix in (_COMMON, own)
        for key, value in values.items()
        if key.startswith(prefix)
    }


_TOPIC: Final = "remote.log.metadata.topic"
_RETRY: Final = "remote.log.metadata.initialization.retry"
_KEYS: Final = (
    ("partitions", f"{_TOPIC}.num.partitions", 1),
    ("replication_factor", f"{_TOPIC}.replication.factor", 1),
    ("retention_ms", f"{_TOPIC}.retention.ms", -1),
    ("min_isr", f"{_TOPIC}.min.isr", 1),
    ("consume_wait_ms", "remote.log.metadata.consume.wait.ms", 0),
    ("initialization_retry_max_timeout_ms", f"{_RETRY}.max.timeout.ms", 0),
    ("initialization_retry_interval_ms", f"{_RETRY}.interval.ms", 0),
)


def _number(key: str, text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{key}={text}: expected a whole number") from None
    if number < least:
        raise ValueError(f"{key}={text}: expected at least {least}")
    return number
