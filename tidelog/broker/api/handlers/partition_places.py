"""Where a partition's replicas can be reached, as a client on one listener sees it.

Source: KRaftMetadataCache of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.image import BrokerImage, Endpoint, MetadataImage, PartitionImage
from tidelog.protocol.ids import BrokerId

NO_CONTROLLER = -1


def leader_endpoint(image: MetadataImage, partition: PartitionImage, listener: str) -> Endpoint | None:
    """Where the leader is reached; None without one, or when it is not on this listener."""
    broker = image.brokers.get(partition.leader)
    return None if broker is None else broker.endpoints.get(listener)


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> tuple[BrokerId, ...]:
    """The replicas that a client cannot reach now."""
    return tuple(
        replica
        for replica in partition.replicas
        if (broker := image.brokers.get(replica)) is None or _is_offline(broker, partition, listener)
    )


def controller_of(image: MetadataImage, node_id: BrokerId) -> BrokerId:
    """The broker that clients take for the controller: any that is alive will pass requests on."""
    own = image.brokers.get(node_id)
    if own is not None and not own.fenced:
        return node_id
    return next((broker.id for broker in image.brokers.values() if not broker.fenced), NO_CONTROLLER)


def _is_offline(broker: BrokerImage, partition: PartitionImage, listener: str) -> bool:
    if broker.fenced or listener not in broker.endpoints:
        return True
    directory = partition.directory_of(broker.id)
    return directory is not None and bool(broker.log_dirs) and directory not in broker.log_dirs
