"""FeatureLevelRecord: metadata record type 12 of `__cluster_metadata`.

Source: FeatureLevelRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int16, MetadataRecord, String, Versions, message, versions


@message
class FeatureLevelRecord(MetadataRecord):
    """Metadata record type 12, version 0."""

    record_type: ClassVar[int] = 12
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    name: Annotated[str, String("0+")] = ""
    feature_level: Annotated[int, Int16("0+")] = 0
