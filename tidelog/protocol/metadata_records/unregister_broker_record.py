"""UnregisterBrokerRecord: metadata record type 1 of `__cluster_metadata`.

Source: UnregisterBrokerRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int32, Int64, MetadataRecord, Versions, message, versions


@message
class UnregisterBrokerRecord(MetadataRecord):
    """Metadata record type 1, version 0."""

    record_type: ClassVar[int] = 1
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = 0
