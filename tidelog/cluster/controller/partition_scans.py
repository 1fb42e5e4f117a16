"""Searches for partitions: those of a broker, of a log directory, those without a leader.

Each is one pass over the image, about 0.1 µs per partition; it does not justify an index that every change
would have to update.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tidelog.cluster.controller.partition_updates import PartitionOfTopic
from tidelog.cluster.image import NO_LEADER, MetadataImage, PartitionImage
from tidelog.protocol.ids import BrokerId


def in_sync_on(image: MetadataImage, broker: BrokerId) -> list[PartitionOfTopic]:
    """Return the partitions that have `broker` in their in-sync set."""
    return _where(image, lambda partition: broker in partition.isr)


def eligible_on(image: MetadataImage, broker: BrokerId) -> list[PartitionOfTopic]:
    """Return the partitions that have `broker` in their eligible leader replicas."""
    return _where(image, lambda partition: broker in partition.eligible_leader_replicas)


def stored_in(image: MetadataImage, directory: UUID) -> list[PartitionOfTopic]:
    """Return the partitions that have a replica in a log directory."""
    return _where(image, lambda partition: directory in partition.directories)


def leaderless(image: MetadataImage) -> list[PartitionOfTopic]:
    """Return the partitions without leader."""
    return _where(image, lambda partition: partition.leader == NO_LEADER)


def not_led_by_preferred(image: MetadataImage) -> list[PartitionOfTopic]:
    """Return the partitions whose leader is not the preferred replica, including those without a leader."""
    return _where(image, lambda partition: partition.leader != partition.replicas[0])


def leads_any(image: MetadataImage, broker: BrokerId) -> bool:
    """Return whether `broker` leads a partition."""
    return any(
        partition.leader == broker
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )


def _where(image: MetadataImage, wanted: Callable[[PartitionImage], bool]) -> list[PartitionOfTopic]:
    return [
        (topic, index)
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if wanted(partition)
    ]
