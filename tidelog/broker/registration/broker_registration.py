"""What a broker says of itself when it registers with the controller."""

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
"""The broker epoch of a broker that has not registered, or does not know its former one."""


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
    """What a node says of itself; `incarnation_id` is new at every start."""
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
    """The epoch that this broker had when it was last stopped in order; NO_EPOCH when it was not.

    By it the controller knows that nothing was lost, and that the broker may still be elected where
    it was eligible (KIP-966). All directories must be there and agree. To be asked before the logs
    are opened, which removes the markers.
    """
    paths = list(usable)
    if not paths or len(paths) < len(configured):
        return NO_EPOCH
    epochs = {CleanShutdownMarker(fs, path).read() for path in paths}
    epoch = epochs.pop()
    return NO_EPOCH if epochs or epoch is None else epoch
