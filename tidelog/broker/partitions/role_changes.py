"""What a step of the metadata log does to the partitions of a node, for those who have to act on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import TopicPartition


@dataclass(slots=True)
class RoleChanges:
    """What one step of the metadata log did to the partitions of this node."""

    led: list[Partition] = field(default_factory=list)
    """Leader here, by a change of any kind."""
    followed: list[Partition] = field(default_factory=list)
    """Follower here since a new leader epoch: to be fetched from `leader_id`, which may be nobody."""
    gone: list[TopicPartition] = field(default_factory=list)
    """Not here any more, or not to be used."""
    refused: list[TopicPartition] = field(default_factory=list)
    """Those of them that the metadata places here: the log cannot be made, opened or led."""


class RoleListener(Protocol):
    """Hears of changes after they were made; the manager of fetchers is one."""

    def roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Fetch from the leaders of those that follow, and no more for the others."""
