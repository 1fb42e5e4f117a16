"""The metadata and assignments of a classic consumer group inside JoinGroup and SyncGroup.

Source: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Array, Bytes, Int32, Message, String, Struct, Versions, message, versions


@message
class SubscriptionTopicPartition(Struct):
    """One entry of `owned_partitions` of `ConsumerProtocolSubscription`."""

    topic: Annotated[str, String("1+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "1+")] = ()


@message
class ConsumerProtocolSubscription(Message):
    """`ConsumerProtocolSubscription`, versions 0-3."""

    valid_versions: ClassVar[Versions] = versions("0-3")
    flexible_versions: ClassVar[Versions] = versions("none")

    topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    user_data: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    owned_partitions: Annotated[
        tuple[SubscriptionTopicPartition, ...], Array(SubscriptionTopicPartition, "1+", ignorable=True)
    ] = ()
    generation_id: Annotated[int, Int32("2+", ignorable=True)] = -1
    rack_id: Annotated[str | None, String("3+", nullable="3+", ignorable=True)] = None


@message
class AssignmentTopicPartition(Struct):
    """One entry of `assigned_partitions` of `ConsumerProtocolAssignment`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ConsumerProtocolAssignment(Message):
    """`ConsumerProtocolAssignment`, versions 0-3."""

    valid_versions: ClassVar[Versions] = versions("0-3")
    flexible_versions: ClassVar[Versions] = versions("none")

    assigned_partitions: Annotated[
        tuple[AssignmentTopicPartition, ...], Array(AssignmentTopicPartition, "0+")
    ] = ()
    user_data: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
