"""What a group coordinator reports, under Kafka's names of GroupMetadataManager.

Source: GroupCoordinatorMetrics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.broker.observability.metrics import BrokerMetrics, Reading


def report_groups(metrics: BrokerMetrics, group_counts: Callable[[], Mapping[GroupState, int]]) -> None:
    """Have `metrics` report how many groups are coordinated here, in all and in each state."""

    def in_state(state: GroupState) -> Callable[[], Reading]:
        return lambda: group_counts().get(state, 0)

    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    metrics.gauge(prefix, "Groups coordinated here.", lambda: sum(group_counts().values()))
    for state in GroupState:
        metrics.gauge(prefix + state.value.lower(), f"Those that are {state.value}.", in_state(state))
