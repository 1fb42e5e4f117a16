"""Updates coordinators and waiting requests with the metadata, after the partitions were updated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidelog.broker.api.handlers.services import Services
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.ids import TopicPartition


class TopicCoordinator(Protocol):
    """A coordinator whose state is stored in the partitions of one topic."""

    def on_leadership(self, partition: int) -> None:
        """Load the state of `partition`, whose leader is this node; called again at each later change."""

    def on_resignation(self, partition: int) -> None:
        """Unload the state of `partition`, whose leader is another node or none."""


def coordinators_of(services: Services) -> dict[str, TopicCoordinator]:
    """Return the coordinators of a node by the topics in which their state is stored."""
    return {
        GROUP_METADATA_TOPIC: services.groups,
        TRANSACTION_STATE_TOPIC: services.transactions,
        SHARE_GROUP_STATE_TOPIC: services.share_coordinator,
    }


class CoordinatorRoles:
    """A listener of role changes, for partitions whose logs are created later or whose directory fails."""

    def __init__(self, coordinators: Mapping[str, TopicCoordinator]) -> None:
        self._coordinators = coordinators

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Unload the state of removed partitions; load the state of partitions whose leader is this node."""
        for topic, index in changes.removed:
            coordinator = self._coordinators.get(topic)
            if coordinator is not None:
                coordinator.on_resignation(index)
        for partition in changes.leaders:
            topic, index = partition.topic_partition
            coordinator = self._coordinators.get(topic)
            if coordinator is not None:
                coordinator.on_leadership(index)


class TopicSubscriber:
    """A subscriber of the metadata store, for coordinators."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._coordinators = coordinators_of(services)

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Load and unload the state of coordinators; remove the offsets and states of deleted topics."""
        for topic_name, coordinator in self._coordinators.items():
            self._apply_topic(topic_name, coordinator, delta, image)
        self._update_groups(delta, image)
        for topic in delta.deleted_topics:
            self._services.traffic.remove_topic(topic.name)
        if delta.deleted_topics:
            self._services.groups.on_topics_deleted({topic.name: topic.id for topic in delta.deleted_topics})
            self._services.share_coordinator.on_topics_deleted({topic.id for topic in delta.deleted_topics})

    def _update_groups(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Let the groups of created, changed and deleted topics check the metadata."""
        old = delta.base.topics_by_id
        created = any(image.topics_by_name[name].id not in old for name in delta.changed_topics)
        names = {*delta.changed_topics, *(topic.name for topic in delta.deleted_topics)}
        if names:
            groups = self._services.groups.consumer_groups
            groups.on_topics_changed(names, image.offset if created else None)
            self._services.groups.share_groups.on_topics_changed(names)
            self._services.groups.streams_groups.on_topics_changed(names)

    def _apply_topic(
        self, topic_name: str, coordinator: TopicCoordinator, delta: MetadataDelta, image: MetadataImage
    ) -> None:
        partitions = self._services.replicas.partitions
        for topic in delta.deleted_topics:
            if topic.name == topic_name:
                for index in topic.partitions:
                    coordinator.on_resignation(index)
        if topic_name in delta.changed_topics:
            for index, partition_image in image.topics_by_name[topic_name].partitions.items():
                if partition_image.leader == self._services.config.node_id:
                    partition = partitions.get(TopicPartition(topic_name, index))
                    # A partition that gets its role in a later turn is reported by `CoordinatorRoles`.
                    if partition is not None and partition.leader_epoch == partition_image.leader_epoch:
                        coordinator.on_leadership(index)
                else:
                    coordinator.on_resignation(index)
