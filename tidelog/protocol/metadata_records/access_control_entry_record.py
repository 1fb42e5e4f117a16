"""AccessControlEntryRecord: metadata record type 18 of `__cluster_metadata`.

Source: AccessControlEntryRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import ZERO_UUID, Int8, MetadataRecord, String, Uuid, Versions, message, versions


@message
class AccessControlEntryRecord(MetadataRecord):
    """Metadata record type 18, version 0."""

    record_type: ClassVar[int] = 18
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    pattern_type: Annotated[int, Int8("0+")] = 0
    principal: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0
