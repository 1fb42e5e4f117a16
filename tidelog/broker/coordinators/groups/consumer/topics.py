"""The metadata of topics as consumer groups use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.topic_hash import group_hash, topic_hash
from tidelog.cluster.image import MetadataImage, TopicImage
from tidelog.protocol.steps import Steps, run_steps


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

    def existing(self, *name_sets: Set[str]) -> Set[str]:
        """Return the names of the sets whose topics exist, in time linear in the smaller number of both."""
        topics = self._image().topics_by_name.keys()
        return {
            name
            for names in name_sets
            for name in (names if len(names) < len(topics) else topics)
            if name in names and name in topics
        }

    def ids_of(self, *name_sets: Set[str]) -> frozenset[UUID]:
        """Return the ids of the topics with the names of the sets that exist."""
        topics = self._image().topics_by_name
        return frozenset([topics[name].id for name in self.existing(*name_sets)])

    def of_current_image(self) -> Topics:
        """Return topics that do not change, for steps between which the metadata may change."""
        image = self._image()
        return Topics(lambda: image)

    def count_partitions(self, *name_sets: Set[str]) -> int:
        """Return the number of partitions of the topics with the names of the sets that exist."""
        topics = self._image().topics_by_name
        return sum(len(topics[name].partitions) for name in self.existing(*name_sets))

    @property
    def version(self) -> int:
        """The version of the metadata: its offset in the metadata log."""
        return self._image().offset

    def hash_of(self, *name_sets: Set[str]) -> int:
        """Return the hash of the topics with the names of the sets that exist."""
        names = self.existing(*name_sets)
        run_steps(self._compute_hashes(names))
        return group_hash([self._hashes[name] for name in sorted(names)])

    def prepare_hash_of(self, *name_sets: Set[str]) -> Steps[None]:
        """Compute the hashes of topics in steps, so that `hash_of` needs little time."""
        yield from self._compute_hashes(self.existing(*name_sets))

    def _compute_hashes(self, names: Set[str]) -> Steps[None]:
        """Compute the hashes of topics that exist, if they are not known."""
        for name in names - self._hashes.keys():
            image = self._image()
            topic = image.topics_by_name.get(name)
            if topic is not None:
                self._hashes[name] = topic_hash(topic, image.brokers)
            yield None

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Remove the hashes of topics that were created, changed or deleted."""
        for name in names:
            self._hashes.pop(name, None)
