"""Conversion between the image of a partition and its records.

Source: PartitionRegistration of Apache Kafka 4.3 (the meaning of each field of a change record).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from tidelog.cluster.image import PartitionImage
from tidelog.cluster.replica_directories import MIGRATING
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.steps import Steps

NO_LEADER_CHANGE: Final = -2
_NO_RECOVERY_STATE_CHANGE: Final = -1
_LISTS: Final = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)


def new_partition(record: PartitionRecord) -> PartitionImage:
    """Return the partition of a PartitionRecord."""
    return PartitionImage(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=record.directories or (MIGRATING,) * len(record.replicas),
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        eligible_leader_replicas=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        leader_recovery_state=record.leader_recovery_state,
    )


def changed_partition(current: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Return `current` with the changes in `record`; any leader in `record` starts a new leader epoch."""
    changes: dict[str, Any] = {name: value for name in _LISTS if (value := getattr(record, name)) is not None}
    changes["partition_epoch"] = current.partition_epoch + 1
    if record.leader != NO_LEADER_CHANGE:
        changes["leader"] = record.leader
        changes["leader_epoch"] = current.leader_epoch + 1
    if record.leader_recovery_state != _NO_RECOVERY_STATE_CHANGE:
        changes["leader_recovery_state"] = record.leader_recovery_state
    if record.directories is not None:
        changes["directories"] = record.directories
    elif record.replicas is not None:
        known = dict(zip(current.replicas, current.directories, strict=False))
        changes["directories"] = tuple(known.get(replica, MIGRATING) for replica in record.replicas)
    return replace(current, **changes)


def without_eligible_leaders(partition: PartitionImage) -> PartitionImage:
    """Return `partition` without eligible leader replicas; removing any increases the partition epoch."""
    if not (partition.eligible_leader_replicas or partition.last_known_elr):
        return partition
    epoch = partition.partition_epoch + 1
    return replace(partition, eligible_leader_replicas=(), last_known_elr=(), partition_epoch=epoch)


def partition_record(topic_id: UUID, index: int, partition: PartitionImage) -> PartitionRecord:
    """Return the PartitionRecord of `partition`."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )


def partition_records(
    topic_id: UUID, first_index: int, partitions: Iterable[PartitionImage]
) -> Steps[list[PartitionRecord]]:
    """Return the PartitionRecords of `partitions`, which have consecutive indexes."""
    records = []
    for index, partition in enumerate(partitions, first_index):
        records.append(partition_record(topic_id, index, partition))
        yield None
    return records
