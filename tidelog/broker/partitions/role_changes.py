"""The role changes of partitions that one metadata update causes, for listeners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Protocol

from tidelog.base.dataclass import dataclass
from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import TopicPartition


@dataclass(slots=True)
class RoleChanges:
    """The partitions of this node whose role one metadata update changed."""

    leaders: list[Partition] = field(default_factory=list)
    """Partitions whose leader is this node; any part of their metadata changed."""
    followers: list[Partition] = field(default_factory=list)
    """Partitions that follow in a new leader epoch; `leader_id` is NO_LEADER while there is no leader."""
    removed: list[TopicPartition] = field(default_factory=list)
    """Partitions that are no longer on this node, or that cannot be used."""
    failed: list[TopicPartition] = field(default_factory=list)
    """The removed partitions that are still assigned to this node, but cannot be used."""

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Add partitions that are no longer on this node, each at most once."""
        self.removed = list(dict.fromkeys((*self.removed, *topic_partitions)))

    @property
    def has_any(self) -> bool:
        """Whether the role of any partition changed."""
        return bool(self.leaders or self.followers or self.removed)


class RoleListener(Protocol):
    """A component that acts on role changes after the ReplicaManager has applied them."""

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Apply `changes`, which result from the metadata of `image`."""
