"""Everything of one node that replicates: what its leaders ask of the controller, and its fetchers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.directory_assignments import DirectoryAssignments
from tidelog.broker.replication.followers import make_fetchers
from tidelog.broker.replication.isr_updates import IsrUpdates
from tidelog.broker.replication.remote_tier import FollowersTier
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.clients.config.environment import Environment
from tidelog.cluster.image import MetadataImage
from tidelog.storage.log.partition_log import PartitionLog


class NodeReplication:
    """Made once there is a way to the controller, started once the node is registered."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: ReplicaManager,
        throttles: ReplicationThrottles,
        *,
        channel: ControllerChannel,
        environment: Environment,
        image: Callable[[], MetadataImage],
        directory_ids: Mapping[str, UUID],
        clock: Clock,
        tier: FollowersTier | None = None,
        flush: Callable[[PartitionLog], Awaitable[None]] | None = None,
    ) -> None:
        leadership = replicas.leadership
        self._replicas = replicas
        self._image = image
        self.isr_updates = IsrUpdates(channel, config.node_id, leadership.own_epoch, clock)
        leadership.updates = self.isr_updates
        self.fetchers = make_fetchers(
            config,
            replicas,
            throttles,
            image=image,
            broker_epoch=leadership.own_epoch,
            clock=clock,
            environment=environment,
            tier=tier,
            flush=flush,
        )
        self._assignments = DirectoryAssignments(
            channel, config.node_id, leadership.own_epoch, directory_ids, clock
        )
        replicas.listeners.append(self._assignments)

    def start(self) -> None:
        """Fetch from now on, and tell of replicas that are not where the metadata says."""
        partitions = self._replicas.partitions.values()
        self.fetchers.start(partitions)
        self._assignments.check(partitions, self._image())

    async def close(self) -> None:
        """End all of it."""
        await self.fetchers.close()
        await self.isr_updates.close()
        await self._assignments.close()
