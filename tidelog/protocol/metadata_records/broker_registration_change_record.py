"""BrokerRegistrationChangeRecord: metadata record type 17 of `__cluster_metadata`.

Source: BrokerRegistrationChangeRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    Array,
    Int8,
    Int32,
    Int64,
    MetadataRecord,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class BrokerRegistrationChangeRecord(MetadataRecord):
    """Metadata record type 17, versions 0-3."""

    record_type: ClassVar[int] = 17
    valid_versions: ClassVar[Versions] = versions("0-3")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = 0
    fenced: Annotated[int, Int8("0+", tag=0, tagged="0+")] = 0
    in_controlled_shutdown: Annotated[int, Int8("1+", tag=1, tagged="1+")] = 0
    log_dirs: Annotated[tuple[UUID, ...], Array(Uuid, "2+", tag=2, tagged="2+")] = ()
    cordoned_log_dirs: Annotated[
        tuple[UUID, ...] | None, Array(Uuid, "3+", nullable="3+", tag=3, tagged="3+")
    ] = None
