"""What depends on partitions and follows the metadata after they have: coordinators, and waiting requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidelog.broker.api.handlers.services import Services
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.ids import TopicPartition


class TopicCoordinator(Protocol):
    """A coordinator that keeps its state in the partitions of one topic."""

    def on_leadership(self, partition: int) -> None:
        """This node leads `partition` now; told again and again while it does."""

    def on_resignation(self, partition: int) -> None:
        """This node does not lead `partition` any more."""


def coordinators_of(services: Services) -> dict[str, TopicCoordinator]:
    """The coordinators of a node by the topics that keep their state."""
    return {GROUP_METADATA_TOPIC: services.groups, TRANSACTION_STATE_TOPIC: services.transactions}


class CoordinatorRoles:
    """A listener of the ReplicaManager: state of partitions that were being made, or that a disk took."""

    def __init__(self, coordinators: Mapping[str, TopicCoordinator]) -> None:
        self._coordinators = coordinators

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Take over the state of what is led here, and send those away that wait for what is gone."""
        for gone in changes.removed:
            coordinator = self._coordinators.get(gone.topic)
            if coordinator is not None:
                coordinator.on_resignation(gone.partition)
        for partition in changes.leaders:
            topic, index = partition.topic_partition
            coordinator = self._coordinators.get(topic)
            if coordinator is not None:
                coordinator.on_leadership(index)


def follow_topics(services: Services, delta: MetadataDelta, image: MetadataImage) -> None:
    """Coordinate what is led here; answer whoever waits for what is gone."""
    for topic_name, coordinator in coordinators_of(services).items():
        _follow_topic(topic_name, coordinator, services, delta, image)
    for topic in delta.deleted_topics:
        for index in topic.partitions:
            gone = TopicPartition(topic.name, index)
            services.fetch_purgatory.check_and_complete(gone)
            services.produce_purgatory.check_and_complete(gone)
    deleted = {topic.name: topic.id for topic in delta.deleted_topics}
    if deleted:
        services.groups.on_topics_deleted(deleted)


def _follow_topic(
    topic_name: str,
    coordinator: TopicCoordinator,
    services: Services,
    delta: MetadataDelta,
    image: MetadataImage,
) -> None:
    here = services.replicas.partitions
    for topic in delta.deleted_topics:
        if topic.name == topic_name:
            for index in topic.partitions:
                coordinator.on_resignation(index)
    if topic_name in delta.changed_topics:
        for index, placed in image.topics_by_name[topic_name].partitions.items():
            if placed.leader == services.config.node_id:
                if TopicPartition(topic_name, index) in here:
                    coordinator.on_leadership(index)
            else:
                coordinator.on_resignation(index)
