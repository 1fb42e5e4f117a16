"""ConfigRecord: metadata record type 4 of `__cluster_metadata`.

Source: ConfigRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int8, MetadataRecord, String, Versions, message, versions


@message
class ConfigRecord(MetadataRecord):
    """Metadata record type 4, version 0."""

    record_type: ClassVar[int] = 4
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"value"})

    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""
