"""PartitionRecord: metadata record type 3 of `__cluster_metadata`.

Source: PartitionRecord.json of Apache Kafka 4.3.
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
class PartitionRecord(MetadataRecord):
    """Metadata record type 3, versions 0-2."""

    record_type: ClassVar[int] = 3
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    partition_id: Annotated[int, Int32("0+")] = -1
    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    replicas: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    isr: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    removing_replicas: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    adding_replicas: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    leader: Annotated[int, Int32("0+")] = -1
    leader_recovery_state: Annotated[int, Int8("0+", tag=0, tagged="0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = -1
    partition_epoch: Annotated[int, Int32("0+")] = -1
    directories: Annotated[tuple[UUID, ...], Array(Uuid, "1+")] = ()
    eligible_leader_replicas: Annotated[
        tuple[int, ...] | None, Array(Int32, "2+", nullable="2+", tag=1, tagged="2+")
    ] = None
    last_known_elr: Annotated[
        tuple[int, ...] | None, Array(Int32, "2+", nullable="2+", tag=2, tagged="2+")
    ] = None
