"""Changes of partitions when a broker is fenced, unfenced, stopped or unregistered, or loses directories.

Each function returns the records of one such event, including those of the partitions, which may be many: it
runs in steps.

Source: KIP-631, KIP-841, KIP-858, KIP-966; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tidelog.cluster.controller.partition_scans import (
    eligible_partitions,
    in_sync_partitions,
    leaderless_partitions,
    partitions_in_directory,
)
from tidelog.cluster.controller.partition_updates import PartitionUpdates
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import eligible_leader_replicas_enabled
from tidelog.cluster.image import BrokerImage, MetadataImage
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps

_FENCE: Final = 1
_UNFENCE: Final = -1
_IN_CONTROLLED_SHUTDOWN: Final = 1


def fence_records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerImage
) -> Steps[list[MetadataRecord]]:
    """Return the records that remove the broker from all ISRs and leaderships, then fence it."""
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE)
    return [*(yield from _isr_removal_records(image, settings, broker.id)), change]


def unfence_records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerImage
) -> Steps[list[MetadataRecord]]:
    """Return the records that unfence the broker, then elect it for leaderless partitions if possible."""
    updates = PartitionUpdates(image, settings, unfenced_broker=broker.id)
    yield from updates.remove_from_isrs(leaderless_partitions(image))
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE)
    return [change, *updates.records]


def controlled_shutdown_records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerImage
) -> Steps[list[MetadataRecord]]:
    """Return the records that mark the broker as shutting down, then remove it from ISRs and leaderships."""
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN
    )
    changes = [] if broker.in_controlled_shutdown else [change]
    return [*changes, *(yield from _isr_removal_records(image, settings, broker.id))]


def unregistration_records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerImage
) -> Steps[list[MetadataRecord]]:
    """Return the records that remove the broker from all ISRs, then remove its registration.

    It remains an eligible leader replica: a broker that registers with its id without a clean shutdown is
    removed from those sets.
    """
    unregistration = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return [*(yield from _isr_removal_records(image, settings, broker.id)), unregistration]


def replacement_records(
    image: MetadataImage,
    settings: ControllerSettings,
    broker: BrokerId,
    log_dirs: Sequence[UUID],
    *,
    is_clean: bool,
) -> Steps[list[MetadataRecord]]:
    """Return the partition changes when another process registers the id `broker` with `log_dirs`.

    `is_clean`: whether the previous process stopped cleanly, so that only records in missing directories can
    be lost. The broker is no longer eligible to lead partitions that may have lost records.
    """
    if not eligible_leader_replicas_enabled(image):
        return list((yield from _isr_removal_records(image, settings, broker)))
    updates = PartitionUpdates(image, settings, removed_broker=broker)
    for topic, index in [*in_sync_partitions(image, broker), *eligible_partitions(image, broker)]:
        directory = topic.partitions[index].directory_of(broker)
        has_directory = directory is None or directory in log_dirs
        if not (is_clean and has_directory):
            yield from updates.remove_from_isrs([(topic, index)], broker, is_unclean=True)
        elif broker in topic.partitions[index].isr:
            yield from updates.remove_from_isrs([(topic, index)], broker)
    return list(updates.records)


def offline_directory_records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerImage, offline: Sequence[UUID]
) -> Steps[list[MetadataRecord]]:
    """Return the records that remove the broker from the ISRs of partitions in the directories `offline`."""
    newly_offline = [directory for directory in broker.log_dirs if directory in offline]
    if not newly_offline:
        return []
    updates = PartitionUpdates(image, settings, removed_broker=broker.id)
    for directory in newly_offline:
        yield from updates.remove_from_isrs(partitions_in_directory(image, directory), broker.id)
    remaining = tuple(directory for directory in broker.log_dirs if directory not in offline)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=remaining
    )
    return [*updates.records, change]


def cordoned_directory_records(broker: BrokerImage, cordoned: Sequence[UUID] | None) -> list[MetadataRecord]:
    """Return the record that sets the broker's cordoned directories; None leaves them unchanged.

    A cordoned directory gets no new partitions.
    """
    if cordoned is None or set(cordoned) == set(broker.cordoned_log_dirs):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=tuple(cordoned)
        )
    ]


def _isr_removal_records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerId
) -> Steps[Sequence[MetadataRecord]]:
    updates = PartitionUpdates(image, settings, removed_broker=broker)
    yield from updates.remove_from_isrs(in_sync_partitions(image, broker), broker)
    return updates.records
