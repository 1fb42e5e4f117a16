"""The metadata of topics as consumer groups use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.topic_hash import group_hash, topic_hash
from tidelog.cluster.image import MetadataImage, TopicImage


class Topics:
    """Reads the current metadata image. It keeps the hashes of subscribed topics until they change.

    Bounds: one hash for each topic to which a group of the partition subscribes, until the topic changes.
    """

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._hashes: dict[str, int] = {}

    def by_name(self, name: str) -> TopicImage | None:
        """Return the topic with this name; None if there is none."""
        return self._image().topics_by_name.get(name)

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        """Return the topic with this id; None if there is none."""
        return self._image().topics_by_id.get(topic_id)

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """Return the ids of the topics with these names that exist."""
        topics = self._image().topics_by_name
        return frozenset(topics[name].id for name in names if name in topics)

    @property
    def version(self) -> int:
        """The version of the metadata: its offset in the metadata log."""
        return self._image().offset

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of the topics with these names that exist."""
        image = self._image()
        hashes = []
        for name in names:
            topic = image.topics_by_name.get(name)
            if topic is None:
                continue
            value = self._hashes.get(name)
            if value is None:
                value = self._hashes[name] = topic_hash(topic, image.brokers)
            hashes.append((name, value))
        return group_hash(hashes)

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Remove the hashes of topics that were created, changed or deleted."""
        for name in names:
            self._hashes.pop(name, None)
