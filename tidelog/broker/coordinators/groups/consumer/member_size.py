"""The memory that a member of a consumer group takes by what its client sends."""

from __future__ import annotations

from typing import Final

from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember

MEMBER_BYTES: Final = 1_500
"""The overhead of a member in bytes: objects, keys, a deadline."""
TEXT_BYTES: Final = 150
"""The overhead of a subscribed topic, of an expression and of a classic protocol in bytes."""


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
    size += sum(TEXT_BYTES + len(name) for name in member.subscribed_topic_names)
    if member.classic is not None:
        size += sum(
            TEXT_BYTES + len(each.name) + len(each.metadata) for each in member.classic.supported_protocols
        )
    return size
