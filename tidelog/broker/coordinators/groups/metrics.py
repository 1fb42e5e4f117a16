"""The metrics of a group coordinator, under Kafka's names of GroupMetadataManager.

Source: GroupCoordinatorMetrics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroupState
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


def report_consumer_groups(
    metrics: BrokerMetrics,
    classic_counts: Callable[[], Mapping[GroupState, int]],
    consumer_counts: Callable[[], Mapping[ConsumerGroupState, int]],
) -> None:
    """Register the number of groups of each protocol, and of consumer groups in each state."""
    prefix = "kafka_server_group_coordinator_metrics_"

    def by_protocol() -> Reading:
        return {
            ("classic",): sum(classic_counts().values()),
            ("consumer",): sum(consumer_counts().values()),
        }

    def by_state() -> Reading:
        counts = consumer_counts()
        return {(state.value.lower(),): counts.get(state, 0) for state in ConsumerGroupState}

    metrics.gauge(prefix + "group_count", "Groups by protocol.", by_protocol, ("protocol",))
    metrics.gauge(prefix + "consumer_group_count", "Consumer groups by state.", by_state, ("state",))
