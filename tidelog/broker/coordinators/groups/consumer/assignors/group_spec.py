"""The information about a group that assignors receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import Steps


class MemberSpec(NamedTuple):
    """The topics that a member subscribes to and its previous target assignment."""

    instance_id: str | None
    subscribed: Set[UUID]
    assigned: TargetPartitions


class GroupSpec(NamedTuple):
    """The members in the order of their join, and the partitions of each topic.

    `is_homogeneous` is true if all members subscribe to the same topics.
    """

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    partition_counts: Mapping[UUID, int]


Assignor: TypeAlias = Callable[[GroupSpec], Steps[Mapping[str, TargetPartitions]]]
"""Returns the new target assignment of each member, in steps. The group does not change meanwhile."""
