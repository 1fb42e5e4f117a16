"""RegisterBrokerRecord: metadata record type 0 of `__cluster_metadata`.

Source: RegisterBrokerRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    MetadataRecord,
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class BrokerEndpoint(Struct):
    """One entry of `end_points` of `RegisterBrokerRecord`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0
    security_protocol: Annotated[int, Int16("0+")] = 0


@message
class BrokerFeature(Struct):
    """One entry of `features` of `RegisterBrokerRecord`."""

    name: Annotated[str, String("0+")] = ""
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


@message
class RegisterBrokerRecord(MetadataRecord):
    """Metadata record type 0, versions 0-4."""

    record_type: ClassVar[int] = 0
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    is_migrating_zk_broker: Annotated[bool, Bool("2+")] = False
    incarnation_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    broker_epoch: Annotated[int, Int64("0+")] = 0
    end_points: Annotated[tuple[BrokerEndpoint, ...], Array(BrokerEndpoint, "0+")] = ()
    features: Annotated[tuple[BrokerFeature, ...], Array(BrokerFeature, "0+")] = ()
    rack: Annotated[str | None, String("0+", nullable="0+")] = ""
    fenced: Annotated[bool, Bool("0+")] = True
    in_controlled_shutdown: Annotated[bool, Bool("1+")] = False
    log_dirs: Annotated[tuple[UUID, ...], Array(Uuid, "3+", tag=0, tagged="3+")] = ()
    cordoned_log_dirs: Annotated[
        tuple[UUID, ...] | None, Array(Uuid, "4+", nullable="4+", tag=1, tagged="4+")
    ] = None
