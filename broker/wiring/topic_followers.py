"""What depends on partitions and follows the metadata after they have: groups, and requests that wait."""

from __future__ import annotations

from broker.groups.service import GroupService
from broker.services import Services
from cluster.delta import MetadataDelta
from cluster.image import MetadataImage
from cluster.topic_names import GROUP_METADATA_TOPIC
from protocol.ids import TopicPartition


def follow_topics(services: Services, delta: MetadataDelta, image: MetadataImage) -> None:
    """Coordinate the groups of partitions that are led here; answer whoever waits for what is gone."""
    _follow_groups(services.groups, services.config.node_id, delta, image)
    for topic in delta.deleted_topics:
        for index in topic.partitions:
            gone = TopicPartition(topic.name, index)
            services.fetch_purgatory.check_and_complete(gone)
            services.produce_purgatory.check_and_complete(gone)
    deleted = {topic.name: topic.id for topic in delta.deleted_topics}
    if deleted:
        services.groups.on_topics_deleted(deleted)


def _follow_groups(groups: GroupService, node_id: int, delta: MetadataDelta, image: MetadataImage) -> None:
    for topic in delta.deleted_topics:
        if topic.name == GROUP_METADATA_TOPIC:
            for index in topic.partitions:
                groups.on_resignation(index)
    if GROUP_METADATA_TOPIC in delta.changed_topics:
        for index, placed in image.topics_by_name[GROUP_METADATA_TOPIC].partitions.items():
            if placed.leader == node_id:
                groups.on_leadership(index)
            else:
                groups.on_resignation(index)
