"""The broker's membership in its cluster: registration, heartbeats, controlled shutdown, leadership lease."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.base.randomness import new_uuid
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.projection import projection
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.quorum_part import QuorumPart
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.registration.broker_lifecycle import (
    BrokerLifecycle,
    BrokerLifecyclePorts,
    LifecycleSettings,
)
from tidelog.broker.registration.broker_registration import previous_broker_epoch, registration_request
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import BrokerId


class ClusterMembership:
    """The membership of a new incarnation of this broker.

    `join`, then `leave`; or `lifecycle.close` after a crash.
    """

    def __init__(self, context: NodeContext, quorum: QuorumPart, advertised: Iterable[Listener]) -> None:
        """Read the previous broker epoch, which is deleted when the logs are opened."""
        config = context.config
        self._is_shutdown_controlled = config.controlled_shutdown_enable
        directory_ids = context.log_directory_ids
        store = quorum.raft.store
        self.lifecycle = BrokerLifecycle(
            registration_request(
                node_id=config.node_id,
                cluster_id=context.cluster_id,
                incarnation_id=new_uuid(context.randomness),
                advertised=advertised,
                rack=config.broker_rack,
                directory_ids=directory_ids.values(),
                previous_broker_epoch=previous_broker_epoch(
                    context.fs, config.log_directories, directory_ids
                ),
            ),
            projection(config, LifecycleSettings),
            BrokerLifecyclePorts(
                channel=quorum.access.heartbeats,
                clock=context.clock,
                rng=context.environment.rng,
                metadata_offset=lambda: store.image.offset,
                is_fenced=lambda epoch: _is_fenced(store.image, config.node_id, epoch),
                probe_quorum=quorum.raft.probe.reaches_majority,
                on_fatal=context.failure.report,
            ),
        )
        self.lease = LeadershipLease(
            context.clock, config.broker_session_timeout_ms, lambda: self.lifecycle.last_unfenced_ms
        )

    async def join(self) -> None:
        """Register with the active controller and wait until this broker has the metadata."""
        self.lifecycle.start()
        await self.lifecycle.wait_until_registered()
        await self.lifecycle.wait_until_caught_up()

    async def leave(self, timeout_s: float) -> None:
        """Perform a controlled shutdown if controlled.shutdown.enable is set; then stop heartbeats."""
        if self._is_shutdown_controlled:
            await self.lifecycle.shut_down(int(timeout_s * 1000))
        await self.lifecycle.close()


def _is_fenced(image: MetadataImage, node_id: BrokerId, epoch: int) -> bool:
    """Return whether the metadata shows that the registration of a broker with this epoch is fenced."""
    broker = image.brokers.get(node_id)
    return broker is not None and broker.epoch == epoch and broker.fenced
