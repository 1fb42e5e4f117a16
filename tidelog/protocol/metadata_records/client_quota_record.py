"""ClientQuotaRecord: metadata record type 14 of `__cluster_metadata`.

Source: ClientQuotaRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    Array,
    Bool,
    Float64,
    MetadataRecord,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class EntityData(Struct):
    """One entry of `entity` of `ClientQuotaRecord`."""

    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class ClientQuotaRecord(MetadataRecord):
    """Metadata record type 14, version 0."""

    record_type: ClassVar[int] = 14
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    entity: Annotated[tuple[EntityData, ...], Array(EntityData, "0+")] = ()
    key: Annotated[str, String("0+")] = ""
    value: Annotated[float, Float64("0+")] = 0.0
    remove: Annotated[bool, Bool("0+")] = False
