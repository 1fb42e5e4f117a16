"""DelegationTokenRecord: metadata record type 10 of `__cluster_metadata`.

Source: DelegationTokenRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Array, Int64, MetadataRecord, String, Versions, message, versions


@message
class DelegationTokenRecord(MetadataRecord):
    """Metadata record type 10, version 0."""

    record_type: ClassVar[int] = 10
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    owner: Annotated[str, String("0+")] = ""
    requester: Annotated[str, String("0+")] = ""
    renewers: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    issue_timestamp: Annotated[int, Int64("0+")] = 0
    max_timestamp: Annotated[int, Int64("0+")] = 0
    expiration_timestamp: Annotated[int, Int64("0+")] = 0
    token_id: Annotated[str, String("0+")] = ""
