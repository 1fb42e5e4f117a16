"""The topics to which the members of a classic group subscribe."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.errors import DecodeError

# Every subscription begins with its version.
_VERSION_BYTES = 2


class GroupSubscriptions:
    """The subscribed topics of one group in its current generation.

    Only members with the consumer protocol have subscriptions that the broker can read.
    """

    def __init__(self) -> None:
        self._is_consumer_group = False
        self._topics: frozenset[str] | None = None
        """None if the topics are unknown."""

    def update(
        self, members: Iterable[Member], protocol_name: str | None, *, is_consumer_group: bool
    ) -> None:
        """Set the topics to those of `members`; they are unknown if a subscription cannot be read."""
        self._is_consumer_group = is_consumer_group
        self._topics = _subscribed_topics(members, protocol_name) if is_consumer_group else None

    def includes(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`; if unknown, True for a consumer group."""
        return self._is_consumer_group if self._topics is None else topic in self._topics


def _subscribed_topics(members: Iterable[Member], protocol_name: str | None) -> frozenset[str] | None:
    """Return the topics of all subscriptions; None if there is no protocol or one cannot be read.

    Every version of the subscription begins with the fields of version 0; only these are read.
    """
    topics: set[str] = set()
    for member in members:
        if protocol_name is None:
            return None
        try:
            subscription, _ = decode_prefix(
                ConsumerProtocolSubscription, member.metadata(protocol_name), 0, _VERSION_BYTES
            )
        except DecodeError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
