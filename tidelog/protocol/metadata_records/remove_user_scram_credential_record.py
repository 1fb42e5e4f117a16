"""RemoveUserScramCredentialRecord: metadata record type 22 of `__cluster_metadata`.

Source: RemoveUserScramCredentialRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int8, MetadataRecord, String, Versions, message, versions


@message
class RemoveUserScramCredentialRecord(MetadataRecord):
    """Metadata record type 22, version 0."""

    record_type: ClassVar[int] = 22
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    name: Annotated[str, String("0+")] = ""
    mechanism: Annotated[int, Int8("0+")] = 0
