"""The records of committed offsets in `__consumer_offsets`.

Source: OffsetCommitKey.json and OffsetCommitValue.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class LegacyOffsetCommitKey(Message):
    """`LegacyOffsetCommitKey` (record type 0), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group: Annotated[str, String("0")] = ""
    topic: Annotated[str, String("0")] = ""
    partition: Annotated[int, Int32("0")] = 0


@message
class OffsetCommitKey(Message):
    """`OffsetCommitKey` (record type 1), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group: Annotated[str, String("0")] = ""
    topic: Annotated[str, String("0")] = ""
    partition: Annotated[int, Int32("0")] = 0


@message
class OffsetCommitValue(Message):
    """`OffsetCommitValue` (record type 1), versions 0-4."""

    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    offset: Annotated[int, Int64("0+")] = 0
    leader_epoch: Annotated[int, Int32("3+", ignorable=True)] = -1
    metadata: Annotated[str, String("0+")] = ""
    commit_timestamp: Annotated[int, Int64("0+")] = 0
    expire_timestamp: Annotated[int, Int64("1", ignorable=True)] = -1
    topic_id: Annotated[UUID, Uuid("4+", tag=0, tagged="4+", ignorable=True)] = ZERO_UUID
