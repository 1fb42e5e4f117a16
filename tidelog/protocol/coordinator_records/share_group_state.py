"""The records of share partitions in `__share_group_state` (KIP-932).

Source: ShareSnapshotKey.json, ShareSnapshotValue.json, ShareUpdateKey.json and ShareUpdateValue.json of
Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class SharePartitionStateKey(Message):
    """`ShareSnapshotKey` (record type 0) and `ShareUpdateKey` (record type 1), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    topic_id: Annotated[UUID, Uuid("0")] = ZERO_UUID
    partition: Annotated[int, Int32("0")] = 0


@message
class StateBatch(Struct):
    """One entry of `state_batches` of `ShareSnapshotValue` and `ShareUpdateValue`."""

    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    delivery_state: Annotated[int, Int8("0+")] = 0
    delivery_count: Annotated[int, Int16("0+")] = 0


@message
class ShareSnapshotValue(Message):
    """`ShareSnapshotValue` (record type 0), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    snapshot_epoch: Annotated[int, Int32("0+")] = 0
    state_epoch: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    delivery_complete_count: Annotated[int, Int32("0+", tag=0, tagged="0+")] = -1
    create_timestamp: Annotated[int, Int64("0+")] = 0
    write_timestamp: Annotated[int, Int64("0+")] = 0
    state_batches: Annotated[tuple[StateBatch, ...], Array(StateBatch, "0+")] = ()


@message
class ShareUpdateValue(Message):
    """`ShareUpdateValue` (record type 1), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    snapshot_epoch: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    delivery_complete_count: Annotated[int, Int32("0+", tag=0, tagged="0+")] = -1
    state_batches: Annotated[tuple[StateBatch, ...], Array(StateBatch, "0+")] = ()
