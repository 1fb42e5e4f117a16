"""AbortTransactionRecord: metadata record type 25 of `__cluster_metadata`.

Source: AbortTransactionRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import MetadataRecord, String, Versions, message, versions


@message
class AbortTransactionRecord(MetadataRecord):
    """Metadata record type 25, version 0."""

    record_type: ClassVar[int] = 25
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    reason: Annotated[str | None, String("0+", nullable="0+", tag=0, tagged="0+")] = None
