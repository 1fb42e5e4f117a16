"""The assignors by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import Assignor, GroupSpec
from tidelog.broker.coordinators.groups.consumer.assignors.range_assignor import assign_ranges
from tidelog.broker.coordinators.groups.consumer.assignors.uniform_heterogeneous import assign_heterogeneous
from tidelog.broker.coordinators.groups.consumer.assignors.uniform_homogeneous import assign_homogeneous
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import Steps


def assign_uniformly(group: GroupSpec) -> Steps[Mapping[str, TargetPartitions]]:
    """Return the target assignment of each member: equally many partitions, with few moves."""
    if group.is_homogeneous:
        return assign_homogeneous(group)
    return assign_heterogeneous(group)


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
