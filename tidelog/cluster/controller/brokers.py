"""Registration of brokers, which distinguishes a broker from its earlier incarnations.

A registration starts fenced; the broker is unfenced once it has caught up with the metadata.

Source: KIP-631, KIP-858, KIP-966; ClusterControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.registered_parts import registered_endpoints, registered_features
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
    """Return the registration of a broker with `epoch`; STALE_BROKER_EPOCH if its epoch is another one."""
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
    """Register a broker; the reply is its epoch, the offset at which its record will stand.

    The same process keeps its epoch and its state. A new one starts fenced; unless it stopped
    cleanly before, and says so by the epoch it had, it is no longer eligible to lead anything; nor is it
    where it has lost the directory.
    `has_session`: the session of the registered process has not expired. `has_previous_epoch`: the request
    is of a version that can.
    Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION while another process holds the
    id, UNSUPPORTED_VERSION when the broker cannot work at the cluster's feature levels,
    INVALID_REGISTRATION, BROKER_ID_NOT_REGISTERED for a broker of ZooKeeper's times.
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
    cleanup = broker_changes.replaced(image, settings, request.broker_id, request.log_dirs, is_clean=is_clean)
    epoch = image.offset + 1 + len(cleanup)
    return ControllerResult((*cleanup, _registration(request, epoch)), epoch, is_atomic=False)


def unregister_broker(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerId
) -> ControllerResult[None]:
    """Forget a broker, dead or alive; BROKER_ID_NOT_REGISTERED when there is none."""
    registered = image.brokers.get(broker)
    if registered is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    records = broker_changes.unregistered(image, settings, registered)
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
        # -1 is no valid id: as a leader it means that there is none.
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"{broker} is no broker id")
    if request.cluster_id != image.cluster_id:
        text = f"broker {broker} is of cluster {request.cluster_id!r}, this is {image.cluster_id!r}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if request.is_migrating_zk_broker:
        text = f"broker {broker} would come from ZooKeeper, which is not supported"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    if not request.listeners:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {broker} names no listener")
    _check_directories(image, request)
    if all(feature.name != METADATA_VERSION for feature in request.features):
        text = f"broker {broker} does not say at which {METADATA_VERSION} it works"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    _check_features(image, request)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    broker, directories = request.broker_id, request.log_dirs
    if not directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {broker} names no log directory")
    if len(set(directories)) != len(directories) or any(map(is_reserved, directories)):
        text = f"broker {broker} names a log directory twice, or one without an id"
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)
    for other in image.brokers.values():
        shared = set(directories) & set(other.log_dirs) if other.id != broker else set()
        if shared:
            text = f"broker {broker} names the log directory {shared.pop()}, which is broker {other.id}'s"
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
                f"broker {request.broker_id} works at {name} {supported.lowest} to {supported.highest}, "
                f"the cluster is at {level}"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _registration(
    request: BrokerRegistrationRequest, epoch: int, same: BrokerImage | None = None
) -> RegisterBrokerRecord:
    """Return the record of a registration; `same` is the registration that it amends, with the same state."""
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
