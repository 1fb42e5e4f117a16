"""RemoveDelegationTokenRecord: metadata record type 26 of `__cluster_metadata`.

Source: RemoveDelegationTokenRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import MetadataRecord, String, Versions, message, versions


@message
class RemoveDelegationTokenRecord(MetadataRecord):
    """Metadata record type 26, version 0."""

    record_type: ClassVar[int] = 26
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    token_id: Annotated[str, String("0+")] = ""
