"""The assignors: every partition has one owner that subscribes to it, and the load is even."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec, MemberSpec
from tidelog.broker.coordinators.groups.consumer.assignors.registry import ASSIGNORS as IN_STEPS
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import run_steps

ASSIGNORS = {name: lambda group, assign=assign: run_steps(assign(group)) for name, assign in IN_STEPS.items()}

T, U, V = UUID(int=1), UUID(int=2), UUID(int=3)


def spec(
    members: dict[str, tuple[set[UUID], TargetPartitions]],
    counts: dict[UUID, int],
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    """Return a group of members with their subscriptions and previous assignments."""
    subscriptions = [subscribed for subscribed, _ in members.values()]
    return GroupSpec(
        members={
            member_id: MemberSpec((instances or {}).get(member_id), subscribed, assigned)
            for member_id, (subscribed, assigned) in members.items()
        },
        is_homogeneous=all(each == subscriptions[0] for each in subscriptions),
        partition_counts={topic: counts[topic] for topic in set().union(*subscriptions)},
    )


def partition_counts(assignment: dict[str, TargetPartitions]) -> list[int]:
    return [sum(map(len, assigned.values())) for assigned in assignment.values()]


def test_range_assigns_contiguous_partitions_of_each_topic_in_the_order_of_the_members() -> None:
    group = spec({"b": ({T, U}, {}), "a": ({T, U}, {}), "c": ({U}, {})}, {T: 5, U: 2})
    assert ASSIGNORS["range"](group) == {
        "a": {T: frozenset({0, 1, 2}), U: frozenset({0})},
        "b": {T: frozenset({3, 4}), U: frozenset({1})},
        "c": {},
    }


def test_range_assigns_topics_with_equally_many_partitions_equally() -> None:
    group = spec({"b": ({T, U, V}, {}), "a": ({T, U, V}, {})}, {T: 3, U: 2, V: 3})
    assert ASSIGNORS["range"](group) == {
        "a": {T: frozenset({0, 1}), U: frozenset({0}), V: frozenset({0, 1})},
        "b": {T: frozenset({2}), U: frozenset({1}), V: frozenset({2})},
    }


def test_range_orders_static_members_by_instance_before_dynamic_ones() -> None:
    group = spec({"a": ({T}, {}), "x": ({T}, {}), "y": ({T}, {})}, {T: 3}, {"y": "1", "x": "2"})
    assert ASSIGNORS["range"](group) == {
        "y": {T: frozenset({0})},
        "x": {T: frozenset({1})},
        "a": {T: frozenset({2})},
    }


def test_a_new_member_gets_its_share_and_the_others_keep_the_rest() -> None:
    old = {"a": {T: frozenset({0, 1, 2})}, "b": {T: frozenset({3, 4, 5})}}
    group = spec({"a": ({T}, old["a"]), "b": ({T}, old["b"]), "c": ({T}, {})}, {T: 6})
    new = ASSIGNORS["uniform"](group)
    assert partition_counts(dict(new)) == [2, 2, 2]
    assert new["a"][T] <= old["a"][T]
    assert new["b"][T] <= old["b"][T]


def test_a_member_that_has_the_extra_partition_keeps_it() -> None:
    group = spec({"a": ({T}, {T: frozenset({0})}), "b": ({T}, {T: frozenset({1, 2})})}, {T: 3})
    assert ASSIGNORS["uniform"](group) == {"a": {T: frozenset({0})}, "b": {T: frozenset({1, 2})}}


def test_members_without_topics_get_nothing() -> None:
    group = spec({"a": (set(), {T: frozenset({0})}), "b": (set(), {})}, {})
    for assign in ASSIGNORS.values():
        assert not any(assign(group).values())


subsets = st.sets(st.sampled_from([T, U, V]))


@settings(max_examples=150, deadline=None)
@given(
    first=st.lists(subsets, min_size=1, max_size=6),
    second=st.lists(subsets, min_size=1, max_size=6),
    counts=st.fixed_dictionaries({topic: st.integers(0, 9) for topic in (T, U, V)}),
    growth=st.integers(0, 3),
    name=st.sampled_from(sorted(ASSIGNORS)),
)
def test_every_partition_has_one_owner_that_subscribes_to_it(
    first: list[set[UUID]], second: list[set[UUID]], counts: dict[UUID, int], growth: int, name: str
) -> None:
    assign = ASSIGNORS[name]
    before = assign(spec({f"m{i}": (topics, {}) for i, topics in enumerate(first)}, counts))
    larger = {topic: count + growth for topic, count in counts.items()}
    members = {f"m{i}": (topics, before.get(f"m{i}", {})) for i, topics in enumerate(second)}
    group = spec(members, larger)
    after = dict(assign(group))
    owners = Counter(
        (t, i) for assigned in after.values() for t, indexes in assigned.items() for i in indexes
    )
    assert all(count == 1 for count in owners.values())
    assert set(owners) == {(t, i) for t in set().union(*second) for i in range(larger[t])}
    for member_id, assigned in after.items():
        assert {topic for topic, indexes in assigned.items() if indexes} <= members[member_id][0]
    if name == "uniform":
        assert_balanced(after, {member_id: topics for member_id, (topics, _) in members.items()})
        if group.is_homogeneous and growth == 0 and len(first) == len(second) and first == second:
            assert after == {each: before.get(each, {}) for each in after}


def assert_balanced(after: dict[str, TargetPartitions], subscriptions: dict[str, set[UUID]]) -> None:
    """Check that no single partition could move to a member with at least two fewer."""
    load = dict(zip(after, partition_counts(after), strict=True))
    for giver, assigned in after.items():
        for topic, indexes in assigned.items():
            if indexes:
                for receiver, topics in subscriptions.items():
                    assert topic not in topics or load[giver] - load.get(receiver, 0) <= 1
