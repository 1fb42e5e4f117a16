"""ClearElrRecord: metadata record type 28 of `__cluster_metadata`.

Source: ClearElrRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import MetadataRecord, String, Versions, message, versions


@message
class ClearElrRecord(MetadataRecord):
    """Metadata record type 28, version 0."""

    record_type: ClassVar[int] = 28
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topic_name: Annotated[str, String("0+")] = ""
