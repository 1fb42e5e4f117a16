"""EndTransactionRecord: metadata record type 24 of `__cluster_metadata`.

Source: EndTransactionRecord.json of Apache Kafka 4.3.
"""

from dataclasses import dataclass
from typing import ClassVar

from protocol.schema import MetadataRecord, Versions, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord(MetadataRecord):
    """Metadata record type 24, versions 0."""

    record_type: ClassVar[int] = 24
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
