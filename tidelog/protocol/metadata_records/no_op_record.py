"""NoOpRecord: metadata record type 20 of `__cluster_metadata`.

Source: NoOpRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import ClassVar

from tidelog.protocol.schema import MetadataRecord, Versions, message, versions


@message
class NoOpRecord(MetadataRecord):
    """Metadata record type 20, version 0."""

    record_type: ClassVar[int] = 20
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
