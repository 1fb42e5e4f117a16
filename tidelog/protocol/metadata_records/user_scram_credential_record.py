"""UserScramCredentialRecord: metadata record type 11 of `__cluster_metadata`.

Source: UserScramCredentialRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Bytes, Int8, Int32, MetadataRecord, String, Versions, message, versions


@message
class UserScramCredentialRecord(MetadataRecord):
    """Metadata record type 11, version 0."""

    record_type: ClassVar[int] = 11
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"salt", "stored_key", "server_key"})

    name: Annotated[str, String("0+")] = ""
    mechanism: Annotated[int, Int8("0+")] = 0
    salt: Annotated[bytes, Bytes("0+")] = b""
    stored_key: Annotated[bytes, Bytes("0+")] = b""
    server_key: Annotated[bytes, Bytes("0+")] = b""
    iterations: Annotated[int, Int32("0+")] = 0
