"""The registration request of a broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from tidelog.broker.config.listeners import Listener
from tidelog.cluster.controller.brokers import supported_features
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages import broker_registration
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest
from tidelog.storage.disk.checkpoints import CleanShutdownMarker
from tidelog.storage.disk.files import FileSystem

NO_EPOCH: Final = -1
"""The broker epoch of a broker that has not registered, or whose previous epoch is unknown."""


def registration_request(
    *,
    node_id: BrokerId,
    cluster_id: str,
    incarnation_id: UUID,
    advertised: Iterable[Listener],
    rack: str | None,
    directory_ids: Iterable[UUID],
    previous_broker_epoch: int = NO_EPOCH,
) -> BrokerRegistrationRequest:
    """Return the request of one incarnation; `incarnation_id` is new at every start."""
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=tuple(
            broker_registration.Listener(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in advertised
        ),
        features=supported_features(),
        rack=rack,
        log_dirs=tuple(sorted(directory_ids)),
        previous_broker_epoch=previous_broker_epoch,
    )


def previous_broker_epoch(fs: FileSystem, configured: Sequence[str], usable: Iterable[str]) -> int:
    """Return the epoch at this broker's last clean shutdown; NO_EPOCH after an unclean one.

    With it the controller knows that no record was lost, and that the broker stays in the eligible leader
    replicas (KIP-966). All `configured` directories must be usable and contain the same epoch. Call it before
    the logs are opened, because that removes the markers.
    """
    paths = list(usable)
    if not paths or len(paths) < len(configured):
        return NO_EPOCH
    epochs = {CleanShutdownMarker(fs, path).read() for path in paths}
    epoch = epochs.pop()
    return NO_EPOCH if epochs or epoch is None else epoch
