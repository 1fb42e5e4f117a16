"""ZkMigrationStateRecord: metadata record type 21 of `__cluster_metadata`.

Source: ZkMigrationStateRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int8, MetadataRecord, Versions, message, versions


@message
class ZkMigrationStateRecord(MetadataRecord):
    """Metadata record type 21, version 0."""

    record_type: ClassVar[int] = 21
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    zk_migration_state: Annotated[int, Int8("0+")] = 0
