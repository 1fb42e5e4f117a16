"""FenceBrokerRecord: metadata record type 7 of `__cluster_metadata`.

Source: FenceBrokerRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int32, Int64, MetadataRecord, Versions, message, versions


@message
class FenceBrokerRecord(MetadataRecord):
    """Metadata record type 7, version 0."""

    record_type: ClassVar[int] = 7
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    id: Annotated[int, Int32("0+")] = 0
    epoch: Annotated[int, Int64("0+")] = 0
