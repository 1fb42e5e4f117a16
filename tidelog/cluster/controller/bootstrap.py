"""The first records of a new cluster: its feature levels, and one value of min.insync.replicas.

They are in a transaction, so that an incomplete start never takes effect. Levels of metadata.version without
transactions have one batch of the same records instead.

Source: ActivationRecordsGenerator of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.cluster.features import BOOTSTRAP_LEVELS, METADATA_VERSION, METADATA_VERSION_3_6_IV1
from tidelog.cluster.image import ResourceType
from tidelog.protocol.metadata_records.begin_transaction_record import BeginTransactionRecord
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.end_transaction_record import EndTransactionRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.schema import MetadataRecord

_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def feature_records() -> tuple[MetadataRecord, ...]:
    """Return the initial feature levels of a new cluster."""
    return tuple(
        FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()
    )


def bootstrap_records(
    min_insync_replicas: int, format_records: Sequence[MetadataRecord] | None = None
) -> tuple[MetadataRecord, ...]:
    """Return the records for an empty metadata log.

    `min_insync_replicas`: the value of server.properties. It becomes the cluster's, because eligible leader
    replicas require the same value on all brokers. `format_records`: the records with which the storage
    tool formatted the controller's directory, mainly feature levels; None for the default levels. Those of a
    backup contain the cluster's value.
    """
    config = ConfigRecord(
        resource_type=ResourceType.BROKER,
        resource_name="",
        name=_MIN_INSYNC_REPLICAS,
        value=str(min_insync_replicas),
    )
    records = (
        *(feature_records() if format_records is None else format_records),
        *(() if _has_min_insync_replicas(format_records or ()) else (config,)),
    )
    if not _has_transactions(records):
        return records
    return (BeginTransactionRecord(name="bootstrap"), *records, EndTransactionRecord())


def _has_transactions(records: Sequence[MetadataRecord]) -> bool:
    return all(
        record.feature_level >= METADATA_VERSION_3_6_IV1
        for record in records
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION
    )


def _has_min_insync_replicas(records: Sequence[MetadataRecord]) -> bool:
    return any(
        isinstance(record, ConfigRecord)
        and (record.resource_type, record.resource_name, record.name)
        == (ResourceType.BROKER, "", _MIN_INSYNC_REPLICAS)
        for record in records
    )
