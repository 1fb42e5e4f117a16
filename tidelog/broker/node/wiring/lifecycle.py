"""A broker's life in its cluster, made from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.broker.channels.controller_access import ControllerAccess
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.registration.broker_lifecycle import BrokerLifecycle, LifecycleSettings
from tidelog.broker.registration.broker_registration import registration_request


def make_lifecycle(
    config: BrokerConfig,
    *,
    cluster_id: str,
    advertised: Iterable[Listener],
    directory_ids: Iterable[UUID],
    previous_broker_epoch: int,
    access: ControllerAccess,
    store: MetadataStore,
    clock: Clock,
    randomness: Randomness,
    on_fatal: Callable[[str], None],
) -> BrokerLifecycle:
    """What tells the controller of this broker; a new incarnation of it."""
    return BrokerLifecycle(
        access.heartbeats,
        registration_request(
            node_id=config.node_id,
            cluster_id=cluster_id,
            incarnation_id=new_uuid(randomness),
            advertised=advertised,
            rack=config.broker_rack,
            directory_ids=directory_ids,
            previous_broker_epoch=previous_broker_epoch,
        ),
        LifecycleSettings(
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            initial_registration_timeout_ms=config.initial_broker_registration_timeout_ms,
            log_dir_failure_timeout_ms=config.log_dir_failure_timeout_ms,
        ),
        clock=clock,
        rng=access.environment.rng,
        metadata_offset=lambda: store.image.offset,
        on_fatal=on_fatal,
    )
