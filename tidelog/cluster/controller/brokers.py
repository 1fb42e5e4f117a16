"""Registration of brokers, which distinguishes a broker from its earlier incarnations.

A new registration is fenced; the broker is unfenced when it has caught up with the metadata.

Source: KIP-631, KIP-858, KIP-966; ClusterControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.registration_fields import registered_endpoints, registered_features
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import COMPATIBLE_FEATURES, METADATA_VERSION
from tidelog.cluster.image import BrokerImage, FeatureRange, MetadataImage
from tidelog.cluster.replica_directories import is_reserved
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from tidelog.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)


def current_registration(image: MetadataImage, broker: BrokerId, epoch: int) -> BrokerImage:
    """Return the registration of a broker; STALE_BROKER_EPOCH if its epoch is not `epoch`."""
    registered = image.brokers.get(broker)
    if registered is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker} is not registered")
    if registered.epoch != epoch:
        text = f"broker {broker} has the epoch {registered.epoch}, not {epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, text)
    return registered


def register_broker(
    image: MetadataImage,
    settings: ControllerSettings,
    request: BrokerRegistrationRequest,
    *,
    has_session: bool,
    has_previous_epoch: bool = True,
) -> ControllerResult[int]:
    """Register a broker; the reply is its epoch, the offset of its registration record.

    The same process keeps its epoch and its state. A new one starts fenced. Its previous epoch in the request
    shows that it stopped cleanly; without it, the broker is no longer an eligible leader of any partition.
    It is also not eligible for partitions whose log directory is missing.
    `has_session`: the session of the registered process has not expired. `has_previous_epoch`: the version of
    the request has a previous epoch.
    Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION while another process holds the
    id, UNSUPPORTED_VERSION if the broker does not support the cluster's feature levels,
    INVALID_REGISTRATION, BROKER_ID_NOT_REGISTERED for a broker that migrates from ZooKeeper.
    """
    _check(image, request)
    existing = image.brokers.get(request.broker_id)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        return ControllerResult((_registration(request, existing.epoch, existing),), existing.epoch)
    if existing is not None and has_session:
        text = f"broker id {request.broker_id} belongs to another process, whose session has not expired"
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)
    is_clean = existing is not None and has_previous_epoch
    is_clean = is_clean and existing is not None and existing.epoch == request.previous_broker_epoch
    cleanup = broker_changes.replacement_records(
        image, settings, request.broker_id, request.log_dirs, is_clean=is_clean
    )
    epoch = image.offset + 1 + len(cleanup)
    return ControllerResult((*cleanup, _registration(request, epoch)), epoch, is_atomic=False)


def unregister_broker(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerId
) -> ControllerResult[None]:
    """Remove a broker's registration, fenced or not; BROKER_ID_NOT_REGISTERED if there is none."""
    registered = image.brokers.get(broker)
    if registered is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    records = broker_changes.unregistration_records(image, settings, registered)
    return ControllerResult(tuple(records), None, is_atomic=False)


def supported_features() -> tuple[Feature, ...]:
    """Return the features that a broker of this software registers."""
    return tuple(
        Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
        for name, levels in COMPATIBLE_FEATURES.items()
    )


def _check(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    broker = request.broker_id
    if broker < 0:
        # As a leader, -1 means that there is none.
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"{broker} is not a broker id")
    if request.cluster_id != image.cluster_id:
        text = f"broker {broker} has the cluster id {request.cluster_id!r}, this cluster {image.cluster_id!r}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if request.is_migrating_zk_broker:
        text = f"broker {broker} migrates from ZooKeeper, which is not supported"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    if not request.listeners:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {broker} registers no listener")
    _check_directories(image, request)
    if all(feature.name != METADATA_VERSION for feature in request.features):
        text = f"broker {broker} registers no supported range of {METADATA_VERSION}"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    _check_features(image, request)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    broker, directories = request.broker_id, request.log_dirs
    if not directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {broker} registers no log directory")
    if len(set(directories)) != len(directories) or any(map(is_reserved, directories)):
        text = f"broker {broker} registers a log directory twice, or one without an id"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    for other in image.brokers.values():
        shared = set(directories) & set(other.log_dirs) if other.id != broker else set()
        if shared:
            text = f"broker {broker} registers the log directory {shared.pop()} of broker {other.id}"
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    offered = {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, level in image.features.items():
        supported = offered.get(name, FeatureRange(0, 0))
        if not supported.lowest <= level <= supported.highest:
            text = (
                f"broker {request.broker_id} supports {name} {supported.lowest} to {supported.highest}, "
                f"the cluster's level is {level}"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _registration(
    request: BrokerRegistrationRequest, epoch: int, same: BrokerImage | None = None
) -> RegisterBrokerRecord:
    """Return the record of a registration; `same` is the process's earlier one, whose state it keeps."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=registered_endpoints(BrokerEndpoint, request.listeners),
        features=registered_features(BrokerFeature, request.features),
        rack=request.rack,
        fenced=same is None or same.fenced,
        in_controlled_shutdown=same is not None and same.in_controlled_shutdown,
        log_dirs=request.log_dirs,
    )
