"""The four ways in which a classic consumer group divides partitions, by the names Kafka gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidelog.clients.assignors.cooperative_sticky import CooperativeStickyAssignor
from tidelog.clients.assignors.range_assignor import RangeAssignor
from tidelog.clients.assignors.round_robin import RoundRobinAssignor
from tidelog.clients.assignors.sticky import StickyAssignor
from tidelog.clients.assignors.subscription import Assignment, Assignor, RebalanceProtocol, Subscription

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

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "RebalanceProtocol", "Subscription"]
