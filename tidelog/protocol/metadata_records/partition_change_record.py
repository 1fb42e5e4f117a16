"""PartitionChangeRecord: metadata record type 5 of `__cluster_metadata`.

Source: PartitionChangeRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Int8,
    Int32,
    MetadataRecord,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class PartitionChangeRecord(MetadataRecord):
    """Metadata record type 5, versions 0-2."""

    record_type: ClassVar[int] = 5
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    partition_id: Annotated[int, Int32("0+")] = -1
    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    isr: Annotated[tuple[int, ...] | None, Array(Int32, "0+", nullable="0+", tag=0, tagged="0+")] = None
    leader: Annotated[int, Int32("0+", tag=1, tagged="0+")] = -2
    replicas: Annotated[tuple[int, ...] | None, Array(Int32, "0+", nullable="0+", tag=2, tagged="0+")] = None
    removing_replicas: Annotated[
        tuple[int, ...] | None, Array(Int32, "0+", nullable="0+", tag=3, tagged="0+")
    ] = None
    adding_replicas: Annotated[
        tuple[int, ...] | None, Array(Int32, "0+", nullable="0+", tag=4, tagged="0+")
    ] = None
    leader_recovery_state: Annotated[int, Int8("0+", tag=5, tagged="0+")] = -1
    directories: Annotated[tuple[UUID, ...] | None, Array(Uuid, "1+", nullable="1+", tag=8, tagged="1+")] = (
        None
    )
    eligible_leader_replicas: Annotated[
        tuple[int, ...] | None, Array(Int32, "2+", nullable="2+", tag=6, tagged="2+")
    ] = None
    last_known_elr: Annotated[
        tuple[int, ...] | None, Array(Int32, "2+", nullable="2+", tag=7, tagged="2+")
    ] = None
