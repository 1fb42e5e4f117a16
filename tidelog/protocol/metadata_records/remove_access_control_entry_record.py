"""RemoveAccessControlEntryRecord: metadata record type 19 of `__cluster_metadata`.

Source: RemoveAccessControlEntryRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import ZERO_UUID, MetadataRecord, Uuid, Versions, message, versions


@message
class RemoveAccessControlEntryRecord(MetadataRecord):
    """Metadata record type 19, version 0."""

    record_type: ClassVar[int] = 19
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
