"""BeginTransactionRecord: metadata record type 23 of `__cluster_metadata`.

Source: BeginTransactionRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import MetadataRecord, String, Versions, message, versions


@message
class BeginTransactionRecord(MetadataRecord):
    """Metadata record type 23, version 0."""

    record_type: ClassVar[int] = 23
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    name: Annotated[str | None, String("0+", nullable="0+", tag=0, tagged="0+")] = None
