"""TopicRecord: metadata record type 2 of `__cluster_metadata`.

Source: TopicRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import ZERO_UUID, MetadataRecord, String, Uuid, Versions, message, versions


@message
class TopicRecord(MetadataRecord):
    """Metadata record type 2, version 0."""

    record_type: ClassVar[int] = 2
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
