"""The records of classic groups in `__consumer_offsets`.

Source: GroupMetadataKey.json and GroupMetadataValue.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    Array,
    Bytes,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class GroupMetadataKey(Message):
    """`GroupMetadataKey` (record type 2), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group: Annotated[str, String("0")] = ""


@message
class MemberMetadata(Struct):
    """One entry of `members` of `GroupMetadataValue`."""

    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+", ignorable=True)] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    rebalance_timeout: Annotated[int, Int32("1+", ignorable=True)] = -1
    session_timeout: Annotated[int, Int32("0+")] = 0
    subscription: Annotated[bytes, Bytes("0+")] = b""
    assignment: Annotated[bytes, Bytes("0+")] = b""


@message
class GroupMetadataValue(Message):
    """`GroupMetadataValue` (record type 2), versions 0-4."""

    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    protocol_type: Annotated[str, String("0+")] = ""
    generation: Annotated[int, Int32("0+")] = 0
    protocol: Annotated[str | None, String("0+", nullable="0+")] = ""
    leader: Annotated[str | None, String("0+", nullable="0+")] = ""
    current_state_timestamp: Annotated[int, Int64("2+", ignorable=True)] = -1
    members: Annotated[tuple[MemberMetadata, ...], Array(MemberMetadata, "0+")] = ()
