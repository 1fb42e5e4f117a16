"""Properties of every assignment, on random groups; range and round robin also equal kafka-python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tidelog.clients.groups.assignors import ASSIGNORS, Subscription
from tidelog.clients.groups.assignors.cooperative_sticky import ownership_change
from tidelog.protocol.ids import TopicPartition

TOPICS = ("a", "b", "c", "d")
clusters = st.fixed_dictionaries({}, optional={topic: st.integers(0, 9) for topic in TOPICS})
topic_sets = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda topics: tuple(sorted(topics)))
equal_groups = st.builds(
    lambda topics, count: {f"m{index}": topics for index in range(count)}, topic_sets, st.integers(1, 7)
)
mixed_groups = st.lists(topic_sets, min_size=1, max_size=7).map(
    lambda sets: {f"m{index}": topics for index, topics in enumerate(sets)}
)
groups = st.one_of(equal_groups, mixed_groups)
Assigned = dict[str, list[TopicPartition]]


def plain(group: dict[str, tuple[str, ...]]) -> dict[str, Subscription]:
    return {member: Subscription(topics=topics) for member, topics in group.items()}


def subscription_with_memory(
    name: str, group: dict[str, tuple[str, ...]], held: Assigned, generation: int
) -> Any:
    cooperative = name == "cooperative-sticky"
    return {
        member: Subscription(
            topics=topics,
            owned_partitions=tuple(held.get(member, ())) if cooperative else (),
            generation=generation if cooperative and member in held else -1,
            user_data=ASSIGNORS[name].user_data(held.get(member), generation if member in held else -1),
        )
        for member, topics in group.items()
    }


def check_valid_and_complete(
    assignment: Assigned, cluster: dict[str, int], group: dict[str, tuple[str, ...]]
) -> None:
    subscribed = {
        TopicPartition(topic, index)
        for topic in {topic for topics in group.values() for topic in topics}
        for index in range(cluster.get(topic, 0))
    }
    given_out = [partition for partitions in assignment.values() for partition in partitions]
    assert assignment.keys() == group.keys()
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == subscribed
    assert all(partition.topic in group[member] for member in group for partition in assignment[member])


def check_no_single_move_helps(assignment: Assigned, group: dict[str, tuple[str, ...]]) -> None:
    for partitions in assignment.values():
        for partition in partitions:
            for other in group:
                if partition.topic in group[other]:
                    assert len(partitions) <= len(assignment[other]) + 1


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=60, deadline=None)
@given(cluster=clusters, group=groups)
def test_every_partition_has_exactly_one_subscribed_owner(
    name: str, cluster: dict[str, int], group: dict[str, tuple[str, ...]]
) -> None:
    check_valid_and_complete(ASSIGNORS[name].assign(cluster, plain(group)), cluster, group)


@settings(max_examples=60, deadline=None)
@given(cluster=clusters, group=equal_groups)
def test_range_and_round_robin_are_balanced_when_subscriptions_are_equal(
    cluster: dict[str, int], group: dict[str, tuple[str, ...]]
) -> None:
    dealt = ASSIGNORS["roundrobin"].assign(cluster, plain(group))
    check_no_single_move_helps(dealt, group)
    ranges = ASSIGNORS["range"].assign(cluster, plain(group))
    for topic in cluster:
        loads = [sum(held.topic == topic for held in partitions) for partitions in ranges.values()]
        assert max(loads) - min(loads) <= 1
        for partitions in ranges.values():
            indexes = [held.partition for held in partitions if held.topic == topic]
            assert indexes == list(range(indexes[0], indexes[0] + len(indexes))) if indexes else True


@pytest.mark.parametrize("theirs", [RangePartitionAssignor, RoundRobinPartitionAssignor])
@settings(max_examples=100, deadline=None)
@given(cluster=clusters, group=groups, instances=st.integers(0, 7))
def test_range_and_round_robin_equal_kafka_python(
    theirs: Any, cluster: dict[str, int], group: dict[str, tuple[str, ...]], instances: int
) -> None:
    if theirs is RoundRobinPartitionAssignor and len({*group.values()}) > 1:
        group = dict.fromkeys(
            group, next(iter(group.values()))
        )  # kafka-python fails on unequal subscriptions
    # kafka-python loses members if static and dynamic ones alternate, so the static ones come first.
    members = {
        member: Subscription(topics=topics, group_instance_id=f"i{index}" if index < instances else None)
        for index, (member, topics) in enumerate(group.items())
    }
    counts = {topic: count for topic, count in cluster.items() if count}
    metadata = SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(counts[topic])) if topic in counts else None
    )
    described = [
        SimpleNamespace(
            member_id=member,
            group_instance_id=subscription.group_instance_id,
            metadata=SimpleNamespace(topics=list(subscription.topics)),
        )
        for member, subscription in members.items()
    ]
    expected = {
        member: {
            TopicPartition(topic, index)
            for topic, indexes in assigned.assigned_partitions
            for index in indexes
        }
        for member, assigned in theirs.assign(metadata, described).items()
    }
    ours = ASSIGNORS[theirs.name].assign(cluster, members)
    assert {member: set(partitions) for member, partitions in ours.items()} == expected


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=80, deadline=None)
@given(cluster=clusters, group=groups)
def test_sticky_assignments_are_balanced_and_do_not_change_when_nothing_changed(
    name: str, cluster: dict[str, int], group: dict[str, tuple[str, ...]]
) -> None:
    assignor = ASSIGNORS[name]
    first = assignor.assign(cluster, plain(group))
    check_no_single_move_helps(first, group)
    again = assignor.assign(cluster, subscription_with_memory(name, group, first, 1))
    assert {m: set(p) for m, p in again.items()} == {m: set(p) for m, p in first.items()}


@settings(max_examples=80, deadline=None)
@given(cluster=clusters, before=equal_groups, joining=st.integers(0, 3), leaving=st.integers(0, 3))
def test_sticky_moves_only_as_many_partitions_as_balance_requires(
    cluster: dict[str, int], before: dict[str, tuple[str, ...]], joining: int, leaving: int
) -> None:
    first = ASSIGNORS["sticky"].assign(cluster, plain(before))
    topics = next(iter(before.values()))
    survivors = dict(list(before.items())[leaving:])
    after_group = {**survivors, **{f"new{index}": topics for index in range(joining)}}
    if not after_group:
        return
    held = {member: first[member] for member in survivors}
    after = ASSIGNORS["sticky"].assign(cluster, subscription_with_memory("sticky", after_group, held, 1))
    check_valid_and_complete(after, cluster, after_group)
    check_no_single_move_helps(after, after_group)
    total = sum(len(partitions) for partitions in after.values())
    quota, rest = divmod(total, len(after_group))
    may_keep = sorted((len(partitions) for partitions in held.values()), reverse=True)
    least_lost = sum(
        max(0, load - quota - (1 if position < rest else 0)) for position, load in enumerate(may_keep)
    )
    lost = sum(len(set(first[member]) - set(after[member])) for member in survivors)
    assert lost == least_lost


@settings(max_examples=80, deadline=None)
@given(cluster=clusters, before=groups, after=groups, generation=st.integers(0, 5))
def test_cooperative_rebalances_reach_a_balanced_assignment_without_double_ownership(
    cluster: dict[str, int],
    before: dict[str, tuple[str, ...]],
    after: dict[str, tuple[str, ...]],
    generation: int,
) -> None:
    name = "cooperative-sticky"
    first = ASSIGNORS[name].assign(cluster, plain(before))
    held = {member: first[member] for member in before if member in after}
    for round_number in range(4):
        members = subscription_with_memory(name, after, held, generation + round_number)
        given_now = ASSIGNORS[name].assign(cluster, members)
        changes = {member: ownership_change(held.get(member, ()), given_now[member]) for member in after}
        still_held = {partition for partitions in held.values() for partition in partitions}
        for member, change in changes.items():
            others = still_held - set(held.get(member, ()))
            assert not others & set(change.added)
        held = given_now
        if not any(change.must_rejoin for change in changes.values()):
            break
    check_valid_and_complete(held, cluster, after)
    check_no_single_move_helps(held, after)


@settings(max_examples=60, deadline=None)
@given(
    cluster=clusters,
    group=groups,
    claims=st.lists(
        st.tuples(
            st.integers(0, 6),
            st.integers(-1, 3),
            st.lists(st.builds(TopicPartition, st.sampled_from((*TOPICS, "gone")), st.integers(-1, 12))),
        ),
        max_size=7,
    ),
)
def test_random_claims_give_a_valid_assignment(
    cluster: dict[str, int],
    group: dict[str, tuple[str, ...]],
    claims: list[tuple[int, int, list[TopicPartition]]],
) -> None:
    members = plain(group)
    for index, generation, held in claims:
        if f"m{index}" in members:
            members[f"m{index}"] = Subscription(
                topics=group[f"m{index}"],
                user_data=ASSIGNORS["sticky"].user_data(held, generation),
                owned_partitions=tuple(held),
                generation=generation,
            )
    check_valid_and_complete(ASSIGNORS["sticky"].assign(cluster, members), cluster, group)
    cooperative = ASSIGNORS["cooperative-sticky"].assign(cluster, members)
    handed_out = [partition for partitions in cooperative.values() for partition in partitions]
    assert len(handed_out) == len(set(handed_out))
