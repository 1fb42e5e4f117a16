"""What depends on partitions and follows the metadata after they have: groups, and requests that wait."""

from __future__ import annotations

from broker.groups.service import GroupService
from broker.role_changes import RoleChanges
from broker.services import Services
from cluster.delta import MetadataDelta
from cluster.image import MetadataImage
from cluster.topic_names import GROUP_METADATA_TOPIC
from protocol.ids import TopicPartition


class GroupRoles:
    """A listener of the ReplicaManager: groups of partitions that were being made, or that a disk took."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups

    def roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Take over the groups of what is led here, and send those away that wait for what is gone."""
        for gone in changes.gone:
            if gone.topic == GROUP_METADATA_TOPIC:
                self._groups.on_resignation(gone.partition)
        for partition in changes.led:
            if partition.topic_partition.topic == GROUP_METADATA_TOPIC:
                self._groups.on_leadership(partition.topic_partition.partition)


def follow_topics(services: Services, delta: MetadataDelta, image: MetadataImage) -> None:
    """Coordinate the groups of partitions that are led here; answer whoever waits for what is gone."""
    _follow_groups(services, delta, image)
    for topic in delta.deleted_topics:
        for index in topic.partitions:
            gone = TopicPartition(topic.name, index)
            services.fetch_purgatory.check_and_complete(gone)
            services.produce_purgatory.check_and_complete(gone)
    deleted = {topic.name: topic.id for topic in delta.deleted_topics}
    if deleted:
        services.groups.on_topics_deleted(deleted)


def _follow_groups(services: Services, delta: MetadataDelta, image: MetadataImage) -> None:
    groups, here = services.groups, services.replicas.partitions
    for topic in delta.deleted_topics:
        if topic.name == GROUP_METADATA_TOPIC:
            for index in topic.partitions:
                groups.on_resignation(index)
    if GROUP_METADATA_TOPIC in delta.changed_topics:
        for index, placed in image.topics_by_name[GROUP_METADATA_TOPIC].partitions.items():
            if placed.leader == services.config.node_id:
                if TopicPartition(GROUP_METADATA_TOPIC, index) in here:
                    groups.on_leadership(index)
            else:
                groups.on_resignation(index)
