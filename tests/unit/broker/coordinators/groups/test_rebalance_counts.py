"""Rebalances of groups whose partitions the coordinator assigns are counted by the node that began them."""

from __future__ import annotations

from tests.support.configs import consumer_group_config
from tests.support.groups.consumer_members import MemberClient
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.share_members import ShareClient
from tests.support.groups.streams_members import StreamsClient
from tidelog.broker.coordinators.groups.rebalance_counts import CONSUMER, SHARE, STREAMS


def new_coordinator() -> GroupCoordinatorFixture:
    config = consumer_group_config(group_consumer_assignment_interval_ms=0)
    coordinator = GroupCoordinatorFixture(consumer_config=config)
    for topic in ("t", "lines"):
        coordinator.add_partitions(topic, 2)
    return coordinator


def totals(coordinator: GroupCoordinatorFixture) -> list[int]:
    return [coordinator.coordinator.rebalances.total(each) for each in (CONSUMER, SHARE, STREAMS)]


def test_joins_and_removals_of_members_are_rebalances_and_other_heartbeats_are_not() -> None:
    coordinator = new_coordinator()
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    for _ in range(5):
        first.heartbeat(coordinator)
        second.heartbeat(coordinator)
    assert totals(coordinator) == [2, 0, 0]
    second.leave(coordinator)
    assert totals(coordinator) == [3, 0, 0]


def test_each_type_of_group_has_its_own_count() -> None:
    share, streams = new_coordinator(), new_coordinator()
    ShareClient("a").join_and_initialize(share)
    StreamsClient("a").join_with_topics(streams)
    # The initialized partitions, and the internal topics that now exist, start a second rebalance.
    assert totals(share) == [0, 2, 0]
    assert totals(streams) == [0, 0, 2]


def test_a_new_coordinator_does_not_count_what_it_loads() -> None:
    coordinator = new_coordinator()
    MemberClient("a").heartbeat(coordinator)
    assert totals(coordinator) == [1, 0, 0]
    assert totals(coordinator.reload()) == [0, 0, 0]
