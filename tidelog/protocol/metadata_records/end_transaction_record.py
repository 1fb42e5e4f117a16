"""EndTransactionRecord: metadata record type 24 of `__cluster_metadata`.

Source: EndTransactionRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import ClassVar

from tidelog.protocol.schema import MetadataRecord, Versions, message, versions


@message
class EndTransactionRecord(MetadataRecord):
    """Metadata record type 24, version 0."""

    record_type: ClassVar[int] = 24
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
