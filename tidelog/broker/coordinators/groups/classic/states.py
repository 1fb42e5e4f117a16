"""The states of a classic group and the transitions between them.

    Empty -> PreparingRebalance            the first member joins
    PreparingRebalance -> CompletingRebalance   all members joined, or the rebalance timeout expired
    PreparingRebalance -> Empty            the group had no member at that time
    CompletingRebalance -> Stable          the leader's assignment is in the log
    CompletingRebalance -> PreparingRebalance   a member joined, left, failed or did not sync
    Stable -> PreparingRebalance           the same, or the leader joined again
    any -> Dead                            the group is deleted, or its partition has another leader

The response to each request in each state:

|             | Empty | PreparingRebalance | CompletingRebalance | Stable | Dead |
|-------------|-------|--------------------|---------------------|--------|------|
| JoinGroup   | starts a rebalance | waits for the other members | unchanged member: current generation; else a new rebalance | unchanged follower: current generation; else a new rebalance | COORDINATOR_NOT_AVAILABLE |
| SyncGroup   | UNKNOWN_MEMBER_ID | REBALANCE_IN_PROGRESS | waits for the leader | current assignment | COORDINATOR_NOT_AVAILABLE |
| Heartbeat   | UNKNOWN_MEMBER_ID | REBALANCE_IN_PROGRESS | NONE | NONE | COORDINATOR_NOT_AVAILABLE |
| LeaveGroup  | UNKNOWN_MEMBER_ID | removes the member | removes, rebalances | removes, rebalances | COORDINATOR_NOT_AVAILABLE |
| OffsetCommit | from simple consumers | from the previous generation | REBALANCE_IN_PROGRESS | from members | COORDINATOR_NOT_AVAILABLE |
| OffsetFetch | returns offsets in every state | | | | |
| OffsetDelete | NONE | consumers: topics without a subscriber | same | same | GROUP_ID_NOT_FOUND |
| DeleteGroups | NONE | NON_EMPTY_GROUP | NON_EMPTY_GROUP | NON_EMPTY_GROUP | GROUP_ID_NOT_FOUND |

Source: ClassicGroupState of Apache Kafka; the names are those in DescribeGroups.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class GroupState(Enum):
    """The state of a group; the value is its name in admin responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


NEXT_STATES: Final[Mapping[GroupState, frozenset[GroupState]]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.PREPARING_REBALANCE: frozenset(
            {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
        ),
        GroupState.COMPLETING_REBALANCE: frozenset(
            {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
        ),
        GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.DEAD: frozenset(),
    }
)
"""The allowed next states of every state."""

CAN_START_REBALANCE: Final = frozenset(
    state for state, next_states in NEXT_STATES.items() if GroupState.PREPARING_REBALANCE in next_states
)
