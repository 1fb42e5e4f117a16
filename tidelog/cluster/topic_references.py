"""Topics that read the remote segments of other topics by reference (`tidelog.source`). Pure.

The objects of a segment belong to the topic whose id is in their key. While another topic of the cluster
refers to them, their topic keeps its remote data: it cannot be deleted, and its tiering cannot be disabled.

Errors: KafkaError.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog.base.config_definition import ConfigError
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.config.topic_source import SOURCE_KEY, TopicSource, source_of


def references(image: MetadataImage) -> dict[UUID, list[tuple[str, TopicSource]]]:
    """Return the topics that refer to topics of this bucket, by the id of the other topic."""
    found: dict[UUID, list[tuple[str, TopicSource]]] = {}
    for (resource_type, name), configs in image.configs.items():
        if resource_type != ResourceType.TOPIC or SOURCE_KEY not in configs:
            continue
        try:
            source = source_of(configs)
        except ConfigError:
            continue  # a record of a later version
        if source is not None and source.mount is None:
            found.setdefault(source.topic_id, []).append((name, source))
    return found


def referenced_until_ms(image: MetadataImage) -> dict[UUID, int]:
    """Return the time up to which other topics refer to the segments of a topic, by topic id."""
    return {
        topic_id: max(source.timestamp_ms or 0 for _, source in topics)
        for topic_id, topics in references(image).items()
    }


def check_unreferenced(
    image: MetadataImage, by_id: Mapping[UUID, list[tuple[str, TopicSource]]], topic_id: UUID, action: str
) -> None:
    """Raise POLICY_VIOLATION if another topic refers to the segments of the topic."""
    if topic_id in by_id:
        names = ", ".join(sorted(name for name, _ in by_id[topic_id]))
        topic = image.topics_by_id[topic_id].name
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Cannot {action} topic {topic!r}: {names} refers to its remote segments; delete it first",
        )


def check_source_change(current: Mapping[str, str], values: Mapping[str, str | None]) -> None:
    """Raise INVALID_CONFIG if a change of configs sets, changes or deletes the source of a topic."""
    if SOURCE_KEY in values and values[SOURCE_KEY] != current.get(SOURCE_KEY):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{SOURCE_KEY} is set when a topic is created by tidelog tier restore --at or tidelog tier "
            "mount, and never changes",
        )
