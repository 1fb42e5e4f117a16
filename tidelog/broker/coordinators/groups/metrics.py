"""The metrics of a group coordinator, under Kafka's names of GroupMetadataManager.

Source: GroupCoordinatorMetrics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroupState
from tidelog.broker.coordinators.groups.rebalance_counts import CONSUMER, SHARE, STREAMS, RebalanceCounts
from tidelog.broker.coordinators.groups.records.offset_records import CommittedOffset, OffsetKey
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.share.group import ShareGroupState
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.protocol.ids import Offset, TopicPartition

_OFFSET_LABELS: Final = ("group", "topic", "partition")


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
    share_counts: Callable[[], Mapping[ShareGroupState, int]],
    streams_counts: Callable[[], Mapping[StreamsGroupState, int]],
) -> None:
    """Register the number of groups of each protocol, and of those of the new protocols in each state."""
    prefix = "kafka_server_group_coordinator_metrics_"

    def by_protocol() -> Reading:
        return {
            ("classic",): sum(classic_counts().values()),
            ("consumer",): sum(consumer_counts().values()),
            ("share",): sum(share_counts().values()),
            ("streams",): sum(streams_counts().values()),
        }

    def by_state() -> Reading:
        counts = consumer_counts()
        return {(state.value.lower(),): counts.get(state, 0) for state in ConsumerGroupState}

    def of_share_groups() -> Reading:
        counts = share_counts()
        return {(state.value.lower(),): counts.get(state, 0) for state in ShareGroupState}

    def of_streams_groups() -> Reading:
        counts = streams_counts()
        return {(state.metric_label,): counts.get(state, 0) for state in StreamsGroupState}

    metrics.gauge(prefix + "groups", "Groups by protocol.", by_protocol, ("protocol",))
    metrics.gauge(prefix + "consumer_groups", "Consumer groups by state.", by_state, ("state",))
    metrics.gauge(prefix + "share_groups", "Share groups by state.", of_share_groups, ("state",))
    metrics.gauge(prefix + "streams_groups", "Streams groups by state.", of_streams_groups, ("state",))


def report_rebalances(metrics: BrokerMetrics, rebalances: RebalanceCounts) -> None:
    """Register the number of rebalances of the groups of each of the new protocols."""

    def total_of(group_type: str) -> Callable[[], Reading]:
        return lambda: rebalances.total(group_type)

    for group_type in (CONSUMER, SHARE, STREAMS):
        name = f"kafka_server_group_coordinator_metrics_{group_type}_group_rebalance"
        metrics.counter(name, f"Rebalances of {group_type} groups of this coordinator.", total_of(group_type))


def report_lags(
    metrics: BrokerMetrics,
    groups: GroupService,
    high_watermark: Callable[[TopicPartition], Offset | None],
    offsets_max: int,
) -> None:
    """Register the committed offsets and the lag of the groups that this node coordinates.

    `high_watermark` returns None for a partition without a replica on this node; its lag is not reported. At
    most `offsets_max` offsets are reported.
    """

    def reported() -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        tables = groups.committed_offsets()
        return islice(chain.from_iterable(table.items() for table in tables), offsets_max)

    def offsets() -> Reading:
        return {
            (key.group_id, key.topic, str(key.partition)): committed.offset for key, committed in reported()
        }

    def lags() -> Reading:
        values: dict[tuple[str, ...], float] = {}
        for key, committed in reported():
            end = high_watermark(TopicPartition(key.topic, key.partition))
            if end is not None:
                values[(key.group_id, key.topic, str(key.partition))] = max(0, end - committed.offset)
        return values

    prefix = "tidelog_group_"
    metrics.gauge(prefix + "committed_offset", "Committed offset of a group.", offsets, _OFFSET_LABELS)
    metrics.gauge(prefix + "lag", "Records after the committed offset of a group.", lags, _OFFSET_LABELS)
    metrics.gauge(
        prefix + "offsets_without_metrics",
        "Committed offsets that exceed metrics.group.offsets.max and have no other metrics.",
        lambda: max(0, sum(table.size for table in groups.committed_offsets()) - offsets_max),
    )
