"""Replicas of new partitions: automatic placement, and validation of assignments by the client.

Source: ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tidelog.base.randomness import Randomness
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.cluster.placement import UsableBroker, place_replicas
from tidelog.cluster.replica_directories import default_directory
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.steps import Steps


def automatic_partitions(
    image: MetadataImage, partition_count: int, replication_factor: int, randomness: Randomness
) -> Steps[list[PartitionImage]]:
    """Return new partitions, spread over the brokers.

    Errors: KafkaError INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    brokers = [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if not broker.in_controlled_shutdown and not _is_cordoned(broker.log_dirs, broker.cordoned_log_dirs)
    ]
    placements = place_replicas(brokers, partition_count, replication_factor, randomness.randrange)
    partitions = []
    for replicas in placements:
        partitions.append(_new_partition(image, replicas))
        yield None
    return partitions


def manual_partition(
    image: MetadataImage, replicas: Sequence[BrokerId], replication_factor: int | None
) -> PartitionImage:
    """Return a new partition on the brokers `replicas`.

    `replication_factor`: that of the topic's other partitions; None for the first one.
    Errors: KafkaError INVALID_REPLICA_ASSIGNMENT if `replicas` is invalid or all its brokers are inactive.
    """
    check_assignment(image, replicas, replication_factor)
    partition = _new_partition(image, tuple(replicas))
    if not partition.isr:
        raise _invalid_assignment(
            f"All brokers specified in the manual partition assignment {list(replicas)} are fenced or in "
            "controlled shutdown."
        )
    return partition


def check_assignment(
    image: MetadataImage, replicas: Sequence[BrokerId], replication_factor: int | None
) -> None:
    """Raise KafkaError INVALID_REPLICA_ASSIGNMENT if a partition cannot have the replicas `replicas`.

    Fenced brokers are allowed. `replication_factor`: the required one; None for any.
    """
    if not replicas:
        raise _invalid_assignment("The manual partition assignment includes an empty replica list.")
    for broker in replicas:
        if broker not in image.brokers:
            raise _invalid_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
    if len(set(replicas)) != len(replicas):
        raise _invalid_assignment(
            f"The manual partition assignment includes a broker more than once: {list(replicas)}"
        )
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _new_partition(image: MetadataImage, replicas: tuple[BrokerId, ...]) -> PartitionImage:
    isr = tuple(broker for broker in replicas if image.brokers[broker].is_active)
    directories = tuple(default_directory(image.brokers[broker].log_dirs) for broker in replicas)
    return PartitionImage(replicas=replicas, isr=isr, leader=isr[0] if isr else -1, directories=directories)


def _is_cordoned(log_dirs: Sequence[UUID], cordoned: Sequence[UUID]) -> bool:
    return bool(log_dirs) and all(directory in cordoned for directory in log_dirs)


def _invalid_assignment(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
