"""Which names a topic may have, and which names are the cluster's own.

Source: org.apache.kafka.common.internals.Topic of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tidelog.protocol.errors import ErrorCode, KafkaError

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
MAX_NAME_LENGTH: Final = 249

_INTERNAL: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str) -> bool:
    """Whether the brokers keep their own state in this topic."""
    return topic in _INTERNAL


def name_fault(topic: str) -> str | None:
    """Why `topic` cannot be a topic's name, None when it can."""
    if not topic:
        return "a topic name must not be empty"
    if topic in (".", ".."):
        return f"a topic name must not be {topic!r}"
    if len(topic) > MAX_NAME_LENGTH:
        return f"topic name {topic!r} has {len(topic)} characters, {MAX_NAME_LENGTH} are allowed"
    if not _LEGAL.fullmatch(topic):
        return f"topic name {topic!r} has a character other than ASCII letters, digits, '.', '_' and '-'"
    return None


def check_name(topic: str) -> None:
    """INVALID_TOPIC_EXCEPTION unless `topic` can be a topic's name."""
    fault = name_fault(topic)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def metric_name(topic: str) -> str:
    """Return the name of a topic in metrics: '.' becomes '_', so that names can collide."""
    return topic.replace(".", "_")


def colliding_names(names: Iterable[str]) -> dict[str, str]:
    """One existing name for every metric name that contains '_'."""
    return {metric_name(name): name for name in names if "." in name or "_" in name}
