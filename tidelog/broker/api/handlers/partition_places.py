"""The leader and the replicas of a partition, for a client of one listener.

Source: KRaftMetadataCache of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.image import BrokerImage, Endpoint, MetadataImage, PartitionImage
from tidelog.protocol.ids import BrokerId

NO_CONTROLLER = -1


def leader_endpoint(image: MetadataImage, partition: PartitionImage, listener: str) -> Endpoint | None:
    """Return the leader's endpoint; None without a leader, or if it is not on this listener."""
    broker = image.brokers.get(partition.leader)
    return None if broker is None else broker.endpoints.get(listener)


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> tuple[BrokerId, ...]:
    """Return the replicas that a client cannot reach now."""
    return tuple(
        replica
        for replica in partition.replicas
        if (broker := image.brokers.get(replica)) is None or _is_offline(broker, partition, listener)
    )


def controller_of(image: MetadataImage, node_id: BrokerId) -> BrokerId:
    """Return the broker that clients use as the controller: any live one, because it forwards requests."""
    own = image.brokers.get(node_id)
    if own is not None and not own.fenced:
        return node_id
    return next((broker.id for broker in image.brokers.values() if not broker.fenced), NO_CONTROLLER)


def _is_offline(broker: BrokerImage, partition: PartitionImage, listener: str) -> bool:
    if broker.fenced or listener not in broker.endpoints:
        return True
    directory = partition.directory_of(broker.id)
    return directory is not None and bool(broker.log_dirs) and directory not in broker.log_dirs
