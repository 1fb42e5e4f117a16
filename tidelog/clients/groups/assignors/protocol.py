"""The subscriptions and assignments in JoinGroup and SyncGroup, as bytes.

| bytes | field |
|-------|-------|
| 2     | version, int16 |
| rest  | ConsumerProtocolSubscription or ConsumerProtocolAssignment in that version |

A version above HIGHEST_VERSION is decoded as HIGHEST_VERSION: later versions only add fields at the end.

Errors: DecodeError for other bytes.
Source: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json of Apache Kafka 4.3,
KIP-429, KIP-792.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeVar

from tidelog.clients.groups.assignors.subscription import Assignment, Subscription
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.schema import Message

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumers in JoinGroup."""

HIGHEST_VERSION: Final = 3

_VERSION: Final = struct.Struct(">h")

M = TypeVar("M", bound=Message)


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """Return the bytes of a member's subscription, for one assignor in JoinGroup."""
    message = ConsumerProtocolSubscription(
        topics=tuple(sorted(subscription.topics)),
        user_data=subscription.user_data,
        owned_partitions=tuple(
            SubscriptionTopicPartition(topic=topic, partitions=tuple(sorted(partitions)))
            for topic, partitions in sorted(partitions_by_topic(subscription.owned_partitions).items())
        ),
        generation_id=subscription.generation,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_subscription(data: bytes | memoryview, *, group_instance_id: str | None = None) -> Subscription:
    """Return the subscription in a member's JoinGroup metadata."""
    message = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=message.topics,
        user_data=message.user_data,
        owned_partitions=tuple(
            TopicPartition(owned.topic, partition)
            for owned in message.owned_partitions
            for partition in owned.partitions
        ),
        generation=message.generation_id,
        rack_id=message.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition],
    user_data: bytes | None = None,
    version: int = HIGHEST_VERSION,
) -> bytes:
    """Return the bytes of one member's assignment, which the leader sends in SyncGroup."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            AssignmentTopicPartition(topic=topic, partitions=tuple(indexes))
            for topic, indexes in partitions_by_topic(partitions).items()
        ),
        user_data=user_data,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """Return the assignment in a SyncGroup response; empty bytes mean an empty assignment."""
    if len(data) == 0:
        return Assignment(partitions=())
    message = _decode(ConsumerProtocolAssignment, data)
    return Assignment(
        partitions=tuple(
            TopicPartition(assigned.topic, partition)
            for assigned in message.assigned_partitions
            for partition in assigned.partitions
        ),
        user_data=message.user_data,
    )


def _decode(cls: type[M], data: bytes | memoryview) -> M:
    if len(data) < _VERSION.size:
        raise DecodeError(f"{cls.__name__} needs a version of 2 bytes, got {len(data)}")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    return decode_prefix(cls, data, min(version, HIGHEST_VERSION), _VERSION.size)[0]
