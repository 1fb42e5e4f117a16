"""The delivery of records to share groups on one node."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.config.projection import projection
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.node.wiring.coordinators import Coordinators
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.purgatories import Purgatories
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.share_partitions.initial_offset import InitialOffsets
from tidelog.broker.share_partitions.member_sessions import MemberSessions
from tidelog.broker.share_partitions.registry import SharePartitionPorts, SharePartitions
from tidelog.broker.share_partitions.settings import ShareDeliveryConfig, ShareGroupSettings
from tidelog.broker.share_partitions.share_sessions import ShareSessions
from tidelog.cluster.image import MetadataImage


class ShareDelivery:
    """Owns the share partitions of the node, and the sessions of the members that fetch them."""

    def __init__(
        self,
        context: NodeContext,
        purgatories: Purgatories,
        replicas: ReplicaManager,
        coordinators: Coordinators,
        image: Callable[[], MetadataImage],
        remote: RemoteAccess | None,
    ) -> None:
        """`remote` is remote storage, None if it is disabled."""
        config = projection(context.config, ShareDeliveryConfig)
        self.settings = ShareGroupSettings(config, image)
        self.partitions = SharePartitions(
            SharePartitionPorts(
                replicas=replicas,
                persister=coordinators.share_persister,
                timers=purgatories.timers,
                fetches=purgatories.share_fetch,
                settings=self.settings,
                initial_offsets=InitialOffsets(
                    self.settings, context.slices, context.clock, None if remote is None else remote.reader
                ),
            )
        )
        self.sessions = MemberSessions(ShareSessions(config.group_share_max_share_sessions), self.partitions)

    async def close(self) -> None:
        """Drop the share partitions."""
        await self.partitions.close()
