"""The metrics of a group coordinator, under Kafka's names of GroupMetadataManager.

Source: GroupCoordinatorMetrics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.broker.observability.metrics import BrokerMetrics, Reading


def report_groups(metrics: BrokerMetrics, group_counts: Callable[[], Mapping[GroupState, int]]) -> None:
    """Register the number of groups that this node coordinates, in total and in each state."""

    def in_state(state: GroupState) -> Callable[[], Reading]:
        return lambda: group_counts().get(state, 0)

    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    metrics.gauge(prefix, "Groups of this coordinator.", lambda: sum(group_counts().values()))
    for state in GroupState:
        text = f"Groups of this coordinator in state {state.value}."
        metrics.gauge(prefix + state.value.lower(), text, in_state(state))
