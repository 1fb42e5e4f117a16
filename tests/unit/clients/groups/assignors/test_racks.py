"""Rack-aware assignment (KIP-881): examples, and properties of random groups with random racks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.clients.groups.assignors.test_assignment_properties import (
    Assigned,
    check_no_single_move_helps,
    check_valid_and_complete,
)
from tidelog.clients.groups.assignors import ASSIGNORS, Subscription
from tidelog.protocol.ids import TopicPartition

TOPICS: tuple[str, ...] = ("a", "b", "c")
RACKS = ("x", "y", "z")
RACK_AWARE = ("range", "sticky", "cooperative-sticky")
rack_sets = st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2)
replicas = st.fixed_dictionaries(
    {}, optional={topic: st.lists(rack_sets, min_size=1, max_size=9) for topic in TOPICS}
)
member_racks = st.lists(st.sampled_from((None, "", *RACKS)), min_size=1, max_size=6)
subscribed = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda topics: tuple(sorted(topics)))

mixed_members = st.lists(st.tuples(subscribed, st.sampled_from((None, *RACKS))), min_size=1, max_size=6)


def racks_of(replicas: Mapping[str, list[frozenset[str]]]) -> dict[TopicPartition, frozenset[str]]:
    return {
        TopicPartition(topic, index): racks
        for topic, partitions in replicas.items()
        for index, racks in enumerate(partitions)
    }


def counts_of(replicas: Mapping[str, list[frozenset[str]]]) -> dict[str, int]:
    return {topic: len(partitions) for topic, partitions in replicas.items()}


def in_racks(topics: str, *racks: str) -> dict[str, Subscription]:
    return {
        f"m{number}": Subscription(topics=tuple(topics), rack_id=rack) for number, rack in enumerate(racks)
    }


def one_replica(racks: str) -> list[frozenset[str]]:
    return [frozenset(rack) for rack in racks]


@pytest.mark.parametrize("name", RACK_AWARE)
def test_members_get_the_partitions_in_their_racks(name: str) -> None:
    replicas = {"a": one_replica("xyzxyz")}
    members = in_racks("a", "x", "y", "z")
    assignment = ASSIGNORS[name].assign(counts_of(replicas), members, racks_of(replicas))
    indexes = {
        member_id: [partition.partition for partition in sorted(partitions)]
        for member_id, partitions in assignment.items()
    }
    assert indexes == {"m0": [0, 3], "m1": [1, 4], "m2": [2, 5]}


@pytest.mark.parametrize("name", RACK_AWARE)
def test_the_balance_is_more_important_than_racks(name: str) -> None:
    replicas = {"a": one_replica("xxxxxx")}
    members = in_racks("a", "x", "y", "z")
    assignment = ASSIGNORS[name].assign(counts_of(replicas), members, racks_of(replicas))
    assert [len(partitions) for partitions in assignment.values()] == [2, 2, 2]


def test_range_keeps_topics_co_partitioned() -> None:
    replicas = {"a": one_replica("xyxy"), "b": one_replica("xyyx")}
    members = in_racks("ab", "y", "x")
    assignment = ASSIGNORS["range"].assign(counts_of(replicas), members, racks_of(replicas))
    for partitions in assignment.values():
        indexes = [[part.partition for part in partitions if part.topic == topic] for topic in "ab"]
        assert indexes[0] == indexes[1]
    assert TopicPartition("a", 0) in assignment["m1"]
    assert TopicPartition("a", 1) in assignment["m0"]


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=60, deadline=None)
@given(replicas=replicas, racks=member_racks)
def test_racks_that_all_partitions_have_change_nothing(
    name: str, replicas: dict[str, list[frozenset[str]]], racks: list[str | None]
) -> None:
    everywhere = {partition: frozenset(RACKS) for partition in racks_of(replicas)}
    members = {f"m{number}": Subscription(topics=TOPICS, rack_id=rack) for number, rack in enumerate(racks)}
    without = ASSIGNORS[name].assign(counts_of(replicas), members)
    assert ASSIGNORS[name].assign(counts_of(replicas), members, everywhere) == without


@pytest.mark.parametrize("name", RACK_AWARE)
@settings(max_examples=100, deadline=None)
@given(replicas=replicas, racks=member_racks)
def test_equal_members_are_balanced_with_random_racks(
    name: str, replicas: dict[str, list[frozenset[str]]], racks: list[str | None]
) -> None:
    members = {f"m{number}": Subscription(topics=TOPICS, rack_id=rack) for number, rack in enumerate(racks)}
    cluster, partition_racks = counts_of(replicas), racks_of(replicas)
    group = dict.fromkeys(members, TOPICS)
    assignment = ASSIGNORS[name].assign(cluster, members, partition_racks)
    check_valid_and_complete(assignment, cluster, group)
    if name != "range":
        check_no_single_move_helps(assignment, group)
    for topic in cluster if name == "range" else ():
        loads = [sum(part.topic == topic for part in partitions) for partitions in assignment.values()]
        assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=200, deadline=None)
@given(replicas=replicas, members=mixed_members)
def test_sticky_assignments_with_racks_become_stable(
    name: str,
    replicas: dict[str, list[frozenset[str]]],
    members: list[tuple[tuple[str, ...], str | None]],
) -> None:
    cluster, partition_racks = counts_of(replicas), racks_of(replicas)
    group = {f"m{number}": topics for number, (topics, _) in enumerate(members)}
    held: Assigned | None = None
    for generation in range(8):
        subscriptions = {
            f"m{number}": Subscription(
                topics=topics,
                rack_id=rack,
                owned_partitions=tuple(held[f"m{number}"]) if held and name == "cooperative-sticky" else (),
                generation=generation if held else -1,
                user_data=ASSIGNORS[name].user_data(None if held is None else held[f"m{number}"], generation),
            )
            for number, (topics, rack) in enumerate(members)
        }
        given_now = ASSIGNORS[name].assign(cluster, subscriptions, partition_racks)
        if held is not None and {m: set(p) for m, p in given_now.items()} == {
            m: set(p) for m, p in held.items()
        }:
            break
        held = given_now
    else:
        pytest.fail("the assignment has changed in every generation")
    check_valid_and_complete(given_now, cluster, group)
    check_no_single_move_helps(given_now, group)
