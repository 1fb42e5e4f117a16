"""RegisterControllerRecord: metadata record type 27 of `__cluster_metadata`.

Source: RegisterControllerRecord.json of Apache Kafka 4.3.
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
class ControllerEndpoint(Struct):
    """One entry of `end_points` of `RegisterControllerRecord`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0
    security_protocol: Annotated[int, Int16("0+")] = 0


@message
class ControllerFeature(Struct):
    """One entry of `features` of `RegisterControllerRecord`."""

    name: Annotated[str, String("0+")] = ""
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


@message
class RegisterControllerRecord(MetadataRecord):
    """Metadata record type 27, version 0."""

    record_type: ClassVar[int] = 27
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    controller_id: Annotated[int, Int32("0+")] = 0
    incarnation_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, Bool("0+")] = False
    end_points: Annotated[tuple[ControllerEndpoint, ...], Array(ControllerEndpoint, "0+")] = ()
    features: Annotated[tuple[ControllerFeature, ...], Array(ControllerFeature, "0+")] = ()
