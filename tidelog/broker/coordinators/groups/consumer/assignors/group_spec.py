"""The information about a group that assignors receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions


class MemberSpec(NamedTuple):
    """The topics that a member subscribes to and its previous target assignment."""

    instance_id: str | None
    subscribed: Set[UUID]
    assigned: TargetPartitions


class GroupSpec(NamedTuple):
    """The members in the order of their join, the partitions of each topic, the owner of each partition.

    `owners` has the previous target assignment by partition. `is_homogeneous` is true if all members
    subscribe to the same topics.
    """

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    partition_counts: Mapping[UUID, int]
    owners: Mapping[UUID, Mapping[int, str]]


Assignor: TypeAlias = Callable[[GroupSpec], Mapping[str, TargetPartitions]]
"""Returns the new target assignment of each member."""
