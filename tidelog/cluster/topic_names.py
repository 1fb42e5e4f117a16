"""The rules for topic names, and the names of internal topics.

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
    """Return whether the topic is internal: brokers store their own state in it."""
    return topic in _INTERNAL


def invalid_name_reason(topic: str) -> str | None:
    """Return why `topic` is not a valid topic name, in Kafka's words; None if it is valid."""
    if not topic:
        return "the empty string is not allowed"
    if topic in (".", ".."):
        return f"{topic!r} is not allowed"
    if len(topic) > MAX_NAME_LENGTH:
        return f"the length of {topic!r} is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(topic):
        return f"{topic!r} contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(topic: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION if `topic` is not a valid topic name."""
    reason = invalid_name_reason(topic)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def metric_name(topic: str) -> str:
    """Return the name of `topic` in metrics, with '_' for '.'; the names of two topics can collide."""
    return topic.replace(".", "_")


def colliding_names(names: Iterable[str]) -> dict[str, str]:
    """Return one of the topic names `names` for every metric name that contains '_'."""
    return {metric_name(name): name for name in names if "." in name or "_" in name}
