"""Broker heartbeats: they unfence a broker and shut it down; a broker without heartbeats is fenced.

The transitions of a broker's state:

    FENCED -> UNFENCED               it has applied the metadata up to its first heartbeat as fenced
                                     (in Kafka up to its registration, which may be too early)
    FENCED -> SHUTDOWN_NOW           it requests to shut down
    UNFENCED -> FENCED               it requests to be fenced, or its session has expired
    UNFENCED -> SHUTDOWN_NOW         it requests to shut down, and leads no partition or also requests fencing
    UNFENCED -> CONTROLLED_SHUTDOWN  it requests to shut down, and leads partitions
    CONTROLLED_SHUTDOWN -> SHUTDOWN_NOW   it leads no partition, and every active broker has applied that

Source: KIP-631, KIP-841, KIP-858; BrokerHeartbeatManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.brokers import current_registration
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.partition_scans import leads_any_partition
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.features import supports_cordoned_directories
from tidelog.cluster.image import BrokerImage, MetadataImage
from tidelog.protocol.ids import Offset
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps


class BrokerState(Enum):
    """The state of a broker between its registration and its shutdown."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


class HeartbeatReply(NamedTuple):
    """The content of the response; `shutdown_offset` is only for `BrokerHeartbeats.apply_reply`."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    shutdown_offset: Offset | None


def broker_heartbeat(
    image: MetadataImage,
    settings: ControllerSettings,
    heartbeats: BrokerHeartbeats,
    request: BrokerHeartbeatRequest,
) -> Steps[ControllerResult[HeartbeatReply]]:
    """Determine the broker's next state, and return the records that lead to it.

    `heartbeats` is only read: call `BrokerHeartbeats.record_heartbeat` before, `apply_reply` after.
    Errors: KafkaError STALE_BROKER_EPOCH if the broker's registration has another epoch.
    """
    broker = current_registration(image, request.broker_id, request.broker_epoch)
    current = _current_state(heartbeats, broker)
    next_state = _next_state(image, heartbeats, broker, current, request)
    records: list[MetadataRecord] = []
    if next_state is not current:
        records = yield from _records(image, settings, broker, next_state)
    if any(directory in request.offline_log_dirs for directory in broker.log_dirs):
        changed_image = _apply(image, records)
        records += yield from broker_changes.offline_directory_records(
            changed_image, settings, broker, request.offline_log_dirs
        )
    if supports_cordoned_directories(image):
        records += broker_changes.cordoned_directory_records(broker, request.cordoned_log_dirs)
    is_shutting_down = next_state is BrokerState.CONTROLLED_SHUTDOWN
    reply = HeartbeatReply(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=next_state is BrokerState.SHUTDOWN_NOW,
        shutdown_offset=image.offset + len(records) if is_shutting_down else None,
    )
    return ControllerResult(tuple(records), reply, is_atomic=False)


def fence_stale_broker(
    image: MetadataImage, settings: ControllerSettings, heartbeats: BrokerHeartbeats, now_ms: int
) -> Steps[ControllerResult[bool]]:
    """Fence the broker whose session expired first; return whether there was one.

    There may be others. The next call must use an image that contains the changes of this call.
    """
    stale = heartbeats.stale_broker(image, now_ms)
    if stale is None:
        return ControllerResult((), False)
    records = yield from broker_changes.fence_records(image, settings, image.brokers[stale])
    return ControllerResult(tuple(records), True, is_atomic=False)


def _current_state(heartbeats: BrokerHeartbeats, broker: BrokerImage) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    if heartbeats.shutdown_offset(broker.id, broker.epoch) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def _next_state(
    image: MetadataImage,
    heartbeats: BrokerHeartbeats,
    broker: BrokerImage,
    current: BrokerState,
    request: BrokerHeartbeatRequest,
) -> BrokerState:
    if current is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        is_caught_up = heartbeats.has_applied_fencing(
            broker.id, broker.epoch, request.current_metadata_offset
        )
        # A process never returns from a controlled shutdown: no metadata record could express it.
        stays_fenced = request.want_fence or broker.in_controlled_shutdown or not is_caught_up
        return BrokerState.FENCED if stays_fenced else BrokerState.UNFENCED
    if current is BrokerState.UNFENCED:
        if request.want_fence:
            return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
        if not request.want_shut_down:
            return BrokerState.UNFENCED
        leads = leads_any_partition(image, broker.id)
        return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
    if leads_any_partition(image, broker.id):
        return BrokerState.CONTROLLED_SHUTDOWN
    shutdown_offset = heartbeats.shutdown_offset(broker.id, broker.epoch)
    lowest_offset = heartbeats.lowest_active_offset(image)
    have_all_applied = shutdown_offset is None or lowest_offset is None or shutdown_offset <= lowest_offset
    return BrokerState.SHUTDOWN_NOW if have_all_applied else BrokerState.CONTROLLED_SHUTDOWN


def _records(
    image: MetadataImage, settings: ControllerSettings, broker: BrokerImage, next_state: BrokerState
) -> Steps[list[MetadataRecord]]:
    if next_state is BrokerState.UNFENCED:
        return (yield from broker_changes.unfence_records(image, settings, broker))
    if next_state is BrokerState.CONTROLLED_SHUTDOWN:
        return (yield from broker_changes.controlled_shutdown_records(image, settings, broker))
    return [] if broker.fenced else (yield from broker_changes.fence_records(image, settings, broker))


def _apply(image: MetadataImage, records: list[MetadataRecord]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.image(image.offset + len(records), image.epoch)
