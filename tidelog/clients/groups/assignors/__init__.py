"""The four partition assignors of classic consumer groups, by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidelog.clients.groups.assignors.cooperative_sticky import CooperativeStickyAssignor
from tidelog.clients.groups.assignors.range_assignor import RangeAssignor
from tidelog.clients.groups.assignors.round_robin import RoundRobinAssignor
from tidelog.clients.groups.assignors.sticky import StickyAssignor
from tidelog.clients.groups.assignors.subscription import (
    Assignment,
    Assignor,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
)

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (
            RangeAssignor(),
            RoundRobinAssignor(),
            StickyAssignor(),
            CooperativeStickyAssignor(),
        )
    }
)

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "PartitionRacks", "RebalanceProtocol", "Subscription"]
