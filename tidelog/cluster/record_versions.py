"""The versions of metadata records, and the fields that a level of `metadata.version` does not have.

The active controller and the writer of snapshots use the form of the finalized level, as Apache Kafka does: a
node of an older release that supports the level can read every record.

| record | version and the first level with it |
|---|---|
| RegisterBrokerRecord | 1: 7 (3.3-IV3); 2: 8 (3.4-IV0); 3: 17 (3.7-IV2); 4: 30 (4.3-IV0) |
| PartitionRecord, PartitionChangeRecord | 0: 7; 1: 17 (3.7-IV2); 2: 23 (4.0-IV1) |
| BrokerRegistrationChangeRecord | the lowest version that has the changed field |
| all others | 0 |

Source: MetadataVersion, PartitionRegistration and BrokerRegistration of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from tidelog.cluster.features import (
    METADATA_VERSION_3_4,
    METADATA_VERSION_3_7_IV2,
    METADATA_VERSION_4_0_IV1,
    METADATA_VERSION_4_3,
)
from tidelog.protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.register_broker_record import RegisterBrokerRecord
from tidelog.protocol.schema import MetadataRecord

RecordT = TypeVar("RecordT", bound=MetadataRecord)

_PARTITION_VERSIONS: Final = ((METADATA_VERSION_4_0_IV1, 2), (METADATA_VERSION_3_7_IV2, 1))

_VERSIONS: Final[Mapping[type[MetadataRecord], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: (
        (METADATA_VERSION_4_3, 4),
        (METADATA_VERSION_3_7_IV2, 3),
        (METADATA_VERSION_3_4, 2),
        (0, 1),
    ),
    PartitionRecord: _PARTITION_VERSIONS,
    PartitionChangeRecord: _PARTITION_VERSIONS,
}
"""The first level with a version, and the version, the newest first; 0 below the last one."""

_FIRST_LEVELS: Final[Mapping[type[MetadataRecord], Mapping[str, int]]] = {
    RegisterBrokerRecord: {
        "log_dirs": METADATA_VERSION_3_7_IV2,
        "cordoned_log_dirs": METADATA_VERSION_4_3,
    },
    PartitionRecord: {
        "directories": METADATA_VERSION_3_7_IV2,
        "eligible_leader_replicas": METADATA_VERSION_4_0_IV1,
        "last_known_elr": METADATA_VERSION_4_0_IV1,
    },
    PartitionChangeRecord: {
        "directories": METADATA_VERSION_3_7_IV2,
        "eligible_leader_replicas": METADATA_VERSION_4_0_IV1,
        "last_known_elr": METADATA_VERSION_4_0_IV1,
    },
}
"""The fields of records that lower levels do not have, with their first levels."""


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    """Return the version in which `record` is written at a level of metadata.version."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        return _version_of_change(record)
    for first_level, version in _VERSIONS.get(type(record), ()):
        if metadata_version >= first_level:
            return version
    return 0


def supported_record(record: RecordT, metadata_version: int) -> RecordT:
    """Return `record` without the fields that the level does not have: as nodes will read it."""
    first_levels = _FIRST_LEVELS.get(type(record))
    if first_levels is None or metadata_version >= METADATA_VERSION_4_3:
        return record
    defaults = type(record)()
    removed = {
        name: getattr(defaults, name)
        for name, first_level in first_levels.items()
        if metadata_version < first_level
    }
    supported: RecordT = replace(cast(Any, record), **removed) if removed else record
    return supported


def _version_of_change(record: BrokerRegistrationChangeRecord) -> int:
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0
