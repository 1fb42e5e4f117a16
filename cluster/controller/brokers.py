"""Brokers come, are let in, and are told apart from their former selves.

A registration starts fenced; the broker is let in once it has caught up with the metadata.

Source: KIP-631, KIP-858; ClusterControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from cluster.features import SUPPORTED_FEATURES
from cluster.image import NO_LEADER, FeatureRange, MetadataImage, PartitionImage
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import BrokerId
from protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from protocol.metadata_records.partition_change_record import PartitionChangeRecord
from protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from protocol.schema import ZERO_UUID

_UNFENCE = -1


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, *, is_single: bool = False
) -> ControllerResult[int]:
    """Register a broker; the reply is its epoch, the offset at which the record will stand.

    `is_single`: the broker is the whole cluster, so a former registration of its id must be its
    own and is over.
    Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION while another process holds the
    id, UNSUPPORTED_VERSION when the broker cannot work at the cluster's feature levels,
    INVALID_REGISTRATION.
    """
    if request.cluster_id != image.cluster_id:
        text = (
            f"broker {request.broker_id} is of cluster {request.cluster_id!r}, this is {image.cluster_id!r}"
        )
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if not request.listeners:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} names no listener")
    if len(set(request.log_dirs)) != len(request.log_dirs) or ZERO_UUID in request.log_dirs:
        text = f"broker {request.broker_id} names a log directory twice, or one without an id"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    existing = image.brokers.get(request.broker_id)
    is_same_process = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and not (is_same_process or existing.fenced or is_single):
        text = f"broker id {request.broker_id} belongs to another process that is still alive"
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)
    _check_features(image, request)
    epoch = existing.epoch if existing is not None and is_same_process else image.offset + 1
    return ControllerResult((_registration(request, epoch),), epoch)


def unfence_broker(image: MetadataImage, broker: BrokerId, broker_epoch: int) -> ControllerResult[None]:
    """Let a registered broker in; STALE_BROKER_EPOCH for a former registration."""
    registered = image.brokers.get(broker)
    if registered is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    if registered.epoch != broker_epoch:
        text = f"broker {broker} has the epoch {registered.epoch}, not {broker_epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, text)
    if not registered.fenced:
        return ControllerResult((), None)
    record = BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker_epoch, fenced=_UNFENCE)
    return ControllerResult((record,), None)


def lead_again(image: MetadataImage, broker: BrokerId) -> Iterator[tuple[PartitionChangeRecord, ...]]:
    """Records by which a broker that came back leads its partitions in a new leader epoch, in batches.

    Offsets that were lost with its memory are then written anew under another epoch, and readers
    can tell. Of partitions without a leader it takes those where it has every committed record:
    as a member of the in-sync set, or of the eligible replicas that were left when it stopped.
    Partitions that another broker leads are left alone.
    """
    changes = [
        change
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if (change := _leadership(topic.id, index, partition, broker)) is not None
    ]
    for start in range(0, len(changes), MAX_RECORDS_PER_COMMAND):
        yield tuple(changes[start : start + MAX_RECORDS_PER_COMMAND])


def _leadership(
    topic_id: UUID, index: int, partition: PartitionImage, broker: BrokerId
) -> PartitionChangeRecord | None:
    if partition.leader not in (broker, NO_LEADER):
        return None
    if broker in partition.isr:
        return PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=broker)
    if broker in partition.eligible_leader_replicas:
        others = tuple(each for each in partition.eligible_leader_replicas if each != broker)
        return PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=index,
            leader=broker,
            isr=(broker,),
            eligible_leader_replicas=others,
            last_known_elr=(),
        )
    return None


def supported_features() -> tuple[Feature, ...]:
    """The features that a broker of this software names when it registers."""
    return tuple(
        Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
        for name, levels in SUPPORTED_FEATURES.items()
    )


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    offered = {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, level in image.features.items():
        supported = offered.get(name, FeatureRange(0, 0))
        if not supported.lowest <= level <= supported.highest:
            text = (
                f"broker {request.broker_id} works at {name} {supported.lowest} to {supported.highest}, "
                f"the cluster is at {level}"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _registration(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ),
        features=tuple(
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ),
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs,
    )
