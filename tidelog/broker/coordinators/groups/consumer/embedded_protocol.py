"""The subscriptions and assignments of classic members, which are bytes inside JoinGroup and SyncGroup.

Source: ConsumerProtocol of Apache Kafka 4.3.1: an unknown higher version is read and written as the highest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError

_VERSION: Final = struct.Struct(">h")
_HIGHEST_VERSION: Final = 3


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription of a member. Raise INCONSISTENT_GROUP_PROTOCOL for invalid bytes."""
    try:
        version = _version(metadata)
        return decode_prefix(ConsumerProtocolSubscription, metadata, version, _VERSION.size)[0]
    except DecodeError as error:
        text = f"the subscription of a member is invalid: {error}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text) from error


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment of a member. Raise DecodeError for invalid bytes."""
    return decode_prefix(ConsumerProtocolAssignment, data, _version(data), _VERSION.size)[0]


def assigned_partitions(assignment: ConsumerProtocolAssignment, topics: Topics) -> TargetPartitions:
    """Return the partitions of an assignment by topic id, without topics that do not exist."""
    partitions: dict[UUID, frozenset[int]] = {}
    for each in assignment.assigned_partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            partitions[topic.id] = frozenset(each.partitions)
    return partitions


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: Topics) -> TargetPartitions:
    """Return the partitions that a member reports as owned, by topic id."""
    partitions: dict[UUID, frozenset[int]] = {}
    for each in subscription.owned_partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            partitions[topic.id] = partitions.get(topic.id, frozenset()).union(each.partitions)
    return partitions


def assignment_bytes(
    partitions: Mapping[UUID, Iterable[int]], subscription_metadata: bytes, topics: Topics
) -> bytes:
    """Return an assignment in the version of the member's subscription."""
    version = _version(subscription_metadata)
    assigned = []
    for topic_id, indexes in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            assigned.append(AssignmentTopicPartition(topic=topic.name, partitions=tuple(sorted(indexes))))
    message = ConsumerProtocolAssignment(assigned_partitions=tuple(assigned))
    return _VERSION.pack(version) + encode(message, version)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"the version is {version}")
    return min(version, _HIGHEST_VERSION)
