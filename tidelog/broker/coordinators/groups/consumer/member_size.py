"""The memory of a consumer group: what the clients of its members send, and the topics of expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember

MEMBER_BYTES: Final = 1_500
"""The overhead of a member in bytes: objects, keys, a deadline."""
TEXT_BYTES: Final = 150
"""The overhead of a subscribed topic, of an expression and of a classic protocol in bytes."""

TOPIC_OF_EXPRESSION_BYTES: Final = 80
"""The memory of a topic that matches an expression, without its name: set entry, string, count."""


def size_of_topics(topics: Iterable[str]) -> int:
    """Return the memory of the topics that match an expression in bytes."""
    return sum(TOPIC_OF_EXPRESSION_BYTES + len(name) for name in topics)


def size_of(member: ConsumerMember) -> int:
    """Return the memory of a member in bytes. Its partitions are not included: the cluster bounds them."""
    size = (
        MEMBER_BYTES
        + len(member.member_id)
        + len(member.client_id)
        + len(member.instance_id or "")
        + len(member.rack_id or "")
        + len(member.subscribed_topic_regex or "")
    )
    size += member.subscribed_topic_names.size_bytes(TEXT_BYTES)
    if member.classic is not None:
        size += sum(
            TEXT_BYTES + len(each.name) + len(each.metadata) for each in member.classic.supported_protocols
        )
    return size
