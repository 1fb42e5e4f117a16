"""The current leader of a partition, for error responses of Produce and Fetch (KIP-951).

A client that gets the leader's id and endpoint with the error need not request metadata first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.protocol.views.response_parts import NodeEndpoint

CurrentLeader: TypeAlias = tuple[BrokerId, LeaderEpoch]

ERRORS_THAT_NAME_THE_LEADER: Final = frozenset(
    {int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)}
)


class CurrentLeaders:
    """Finds leaders in the partitions of this node, which are updated first, else in the metadata."""

    def __init__(self, image: Callable[[], MetadataImage], replicas: ReplicaManager) -> None:
        self._image = image
        self._replicas = replicas

    def leader_of(self, topic: str | None, topic_id: UUID | None, index: int) -> CurrentLeader | None:
        """Return the id and epoch of the leader; None if there is no leader, or if it is unknown."""
        image = self._image()
        topic_image = None
        if topic is not None:
            topic_image = image.topics_by_name.get(topic)
        elif topic_id is not None:
            topic_image = image.topics_by_id.get(topic_id)
        if topic_image is None:
            return None
        partition = self._replicas.partitions.get(TopicPartition(topic_image.name, index))
        if partition is not None:
            leader = (partition.leader_id, partition.leader_epoch)
        else:
            partition_image = topic_image.partitions.get(index)
            if partition_image is None:
                return None
            leader = (partition_image.leader, partition_image.leader_epoch)
        return None if leader[0] == NO_LEADER else leader

    def endpoints(self, leaders: Iterable[CurrentLeader | None], listener: str) -> tuple[NodeEndpoint, ...]:
        """Return the endpoints of `leaders` on `listener`, without fenced brokers."""
        brokers = self._image().brokers
        by_broker: dict[BrokerId, NodeEndpoint] = {}
        for leader in leaders:
            broker = None if leader is None else brokers.get(leader[0])
            if broker is None or broker.fenced:
                continue
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None:
                by_broker[broker.id] = NodeEndpoint(broker.id, endpoint.host, endpoint.port, broker.rack)
        return tuple(by_broker.values())
