"""Registration of brokers, which distinguishes the incarnations of a broker by their epochs.

A new registration is fenced; the broker is unfenced when it has caught up with the metadata.

Source: KIP-631, KIP-858, KIP-966; ClusterControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.registration_fields import registered_endpoints, registered_features
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import METADATA_VERSION, SUPPORTED_FEATURES, supports_directories
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
from tidelog.protocol.steps import Steps


def require_registration(image: MetadataImage, broker: BrokerId) -> BrokerImage:
    """Return the registration of `broker`, whatever its epoch is.

    Errors: KafkaError BROKER_ID_NOT_REGISTERED if there is none.
    """
    registration = image.brokers.get(broker)
    if registration is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker} is not currently registered"
        )
    return registration


def current_registration(image: MetadataImage, broker: BrokerId, epoch: int) -> BrokerImage:
    """Return the registration of `broker`.

    Errors: KafkaError STALE_BROKER_EPOCH if its epoch is not `epoch`, or if there is none.
    """
    registered = image.brokers.get(broker)
    if registered is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker}")
    if registered.epoch != epoch:
        text = f"Expected broker epoch {registered.epoch} of broker {broker}, but got {epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, text)
    return registered


def register_broker(
    image: MetadataImage,
    settings: ControllerSettings,
    request: BrokerRegistrationRequest,
    *,
    has_session: bool,
    has_previous_epoch: bool = True,
) -> Steps[ControllerResult[int]]:
    """Register a broker; the reply is its epoch, the offset of its registration record.

    The same process keeps its epoch and its state. A new one starts fenced. Its previous epoch in the request
    shows that it stopped cleanly; without it, the broker is no longer an eligible leader of any partition.
    It is also not eligible for partitions whose log directory is missing.
    `has_session`: whether the session of the registered process has not expired. `has_previous_epoch`:
    whether the version of the request has a previous epoch.
    Errors: KafkaError INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION while another process holds the
    id, UNSUPPORTED_VERSION if the broker does not support the cluster's feature levels,
    INVALID_REGISTRATION, BROKER_ID_NOT_REGISTERED for a broker that migrates from ZooKeeper.
    """
    _check(image, request)
    existing = image.brokers.get(request.broker_id)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        return ControllerResult((_registration(request, existing.epoch, existing),), existing.epoch)
    if existing is not None and has_session:
        text = f"Another broker is registered with broker id {request.broker_id}; its session has not expired"
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)
    is_clean = existing is not None and has_previous_epoch
    is_clean = is_clean and existing is not None and existing.epoch == request.previous_broker_epoch
    cleanup = yield from broker_changes.replacement_records(
        image, settings, request.broker_id, request.log_dirs, is_clean=is_clean
    )
    epoch = image.offset + 1 + len(cleanup)
    return ControllerResult((*cleanup, _registration(request, epoch)), epoch, is_atomic=False)


def unregister_broker(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerId
) -> Steps[ControllerResult[None]]:
    """Remove a broker's registration, fenced or not.

    Errors: KafkaError BROKER_ID_NOT_REGISTERED if there is none.
    """
    registration = require_registration(image, broker)
    records = yield from broker_changes.unregistration_records(image, settings, registration)
    return ControllerResult(tuple(records), None, is_atomic=False)


def supported_features() -> tuple[Feature, ...]:
    """Return the features that a broker of this software registers."""
    return tuple(
        Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
        for name, levels in SUPPORTED_FEATURES.items()
    )


def _check(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    broker = request.broker_id
    if broker < 0:
        # -1 would mean that a partition has no leader.
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"Invalid broker id {broker}: must not be negative")
    if request.cluster_id != image.cluster_id:
        text = f"Expected cluster ID {image.cluster_id!r}, but got cluster ID {request.cluster_id!r}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if request.is_migrating_zk_broker:
        text = f"Controller does not support registering ZK brokers: broker {broker}"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    if not request.listeners:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"No listeners specified in the registration of broker {broker}"
        )
    _check_directories(image, request)
    if all(feature.name != METADATA_VERSION for feature in request.features):
        text = f"No supported range of {METADATA_VERSION} specified in the registration of broker {broker}"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    _check_features(image, request)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    broker, directories = request.broker_id, request.log_dirs
    if not supports_directories(image):
        return
    if not directories:
        text = f"No directories specified in the registration of broker {broker}"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    if len(set(directories)) != len(directories) or any(map(is_reserved, directories)):
        text = f"Duplicate or reserved directory ID in the registration of broker {broker}"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    for other in image.brokers.values():
        shared = set(directories) & set(other.log_dirs) if other.id != broker else set()
        if shared:
            text = f"Broker {other.id} is already registered with directory {shared.pop()} of broker {broker}"
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    supported_ranges = {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, level in image.features.items():
        supported = supported_ranges.get(name, FeatureRange(0, 0))
        if not supported.lowest <= level <= supported.highest:
            text = (
                f"Unable to register because broker {request.broker_id} does not support finalized version "
                f"{level} of {name}. The broker wants a version between {supported.lowest} and "
                f"{supported.highest}, inclusive."
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _registration(
    request: BrokerRegistrationRequest, epoch: int, existing: BrokerImage | None = None
) -> RegisterBrokerRecord:
    """Return the record of a registration; it keeps the state of `existing`, one of the same process."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=registered_endpoints(BrokerEndpoint, request.listeners),
        features=registered_features(BrokerFeature, request.features),
        rack=request.rack,
        fenced=existing is None or existing.fenced,
        in_controlled_shutdown=existing is not None and existing.in_controlled_shutdown,
        log_dirs=request.log_dirs,
    )
