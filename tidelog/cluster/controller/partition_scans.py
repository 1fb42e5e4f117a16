"""Searches for the partitions of a broker or of a log directory, and for those that need an election.

Each is one pass over the image, about 0.1 µs per partition; it does not justify an index that every change
would have to update.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tidelog.cluster.controller.partition_updates import PartitionOfTopic
from tidelog.cluster.image import NO_LEADER, MetadataImage, PartitionImage
from tidelog.protocol.ids import BrokerId


def in_sync_partitions(image: MetadataImage, broker: BrokerId) -> list[PartitionOfTopic]:
    """Return the partitions that have `broker` in their ISR."""
    return _partitions_where(image, lambda partition: broker in partition.isr)


def eligible_partitions(image: MetadataImage, broker: BrokerId) -> list[PartitionOfTopic]:
    """Return the partitions of which `broker` is an eligible leader replica."""
    return _partitions_where(image, lambda partition: broker in partition.eligible_leader_replicas)


def partitions_in_directory(image: MetadataImage, directory: UUID) -> list[PartitionOfTopic]:
    """Return the partitions that have a replica in the log directory `directory`."""
    return _partitions_where(image, lambda partition: directory in partition.directories)


def leaderless_partitions(image: MetadataImage) -> list[PartitionOfTopic]:
    """Return the partitions without a leader."""
    return _partitions_where(image, lambda partition: partition.leader == NO_LEADER)


def imbalanced_partitions(image: MetadataImage) -> list[PartitionOfTopic]:
    """Return the partitions whose leader is not the preferred replica, including those without a leader."""
    return _partitions_where(image, lambda partition: partition.leader != partition.replicas[0])


def leads_any_partition(image: MetadataImage, broker: BrokerId) -> bool:
    """Return whether `broker` leads a partition."""
    return any(
        partition.leader == broker
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )


def _partitions_where(
    image: MetadataImage, condition: Callable[[PartitionImage], bool]
) -> list[PartitionOfTopic]:
    return [
        (topic, index)
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if condition(partition)
    ]
