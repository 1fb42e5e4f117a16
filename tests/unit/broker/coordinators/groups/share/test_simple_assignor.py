"""The assignor of share groups: balance, coverage and stickiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.share.simple_assignor import ShareMemberSpec
from tidelog.broker.coordinators.groups.share.simple_assignor import assign as assign_in_steps
from tidelog.protocol.steps import run_steps

TOPICS = [UUID(int=number) for number in range(1, 4)]
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS), max_size=3)
ASSIGNABLE = st.dictionaries(
    st.sampled_from(TOPICS), st.frozensets(st.integers(0, 7), max_size=8), max_size=3
)
MEMBERS = st.dictionaries(st.sampled_from("abcdefghij"), SUBSCRIPTIONS, min_size=1)


def assign(
    members: Mapping[str, ShareMemberSpec], assignable: Mapping[UUID, frozenset[int]]
) -> Mapping[str, TargetPartitions]:
    return run_steps(assign_in_steps(members, assignable))


def specs(
    members: Mapping[str, frozenset[UUID]], targets: Mapping[str, TargetPartitions]
) -> dict[str, ShareMemberSpec]:
    return {
        member_id: ShareMemberSpec(topics, targets.get(member_id, {}))
        for member_id, topics in members.items()
    }


def shared_by(targets: Mapping[str, TargetPartitions]) -> Counter[tuple[UUID, int]]:
    return Counter(
        (topic_id, index)
        for target in targets.values()
        for topic_id, indexes in target.items()
        for index in indexes
    )


@given(MEMBERS, MEMBERS, ASSIGNABLE, ASSIGNABLE)
def test_every_assignable_partition_has_a_member_that_subscribes_to_its_topic(
    before: dict[str, frozenset[UUID]],
    after: dict[str, frozenset[UUID]],
    assignable_before: dict[UUID, frozenset[int]],
    assignable: dict[UUID, frozenset[int]],
) -> None:
    targets = assign(specs(after, assign(specs(before, {}), assignable_before)), assignable)
    assert targets.keys() == after.keys()
    for member_id, target in targets.items():
        assert target.keys() <= after[member_id]
    subscribed = frozenset().union(*after.values())
    expected = {(topic, index) for topic in subscribed for index in assignable.get(topic, ())}
    assert shared_by(targets).keys() == expected


@given(st.sets(st.sampled_from("abcdefghij"), min_size=1), MEMBERS, ASSIGNABLE)
def test_members_with_the_same_subscription_have_equally_many_partitions(
    member_ids: set[str], before: dict[str, frozenset[UUID]], assignable: dict[UUID, frozenset[int]]
) -> None:
    members = dict.fromkeys(sorted(member_ids), frozenset(TOPICS))
    targets = assign(specs(members, assign(specs(before, {}), assignable)), assignable)
    counts = [sum(map(len, target.values())) for target in targets.values()]
    partitions = sum(map(len, assignable.values()))
    if partitions >= len(members):
        assert max(counts) - min(counts) <= 1
        assert sum(counts) == partitions
    elif partitions:
        sharing = -(-len(members) // partitions)
        assert max(shared_by(targets).values()) <= sharing


def test_a_member_keeps_its_partitions_when_another_joins() -> None:
    assignable = {TOPICS[0]: frozenset(range(4))}
    topics = frozenset(TOPICS[:1])
    first = assign(specs({"a": topics}, {}), assignable)
    second = assign(specs({"a": topics, "b": topics}, first), assignable)
    assert second["a"][TOPICS[0]] < first["a"][TOPICS[0]]
    assert [len(second[member][TOPICS[0]]) for member in "ab"] == [2, 2]
    assert assign(specs({"a": topics, "b": topics}, second), assignable) == second


def test_members_share_a_partition_if_there_are_too_few() -> None:
    topics = frozenset(TOPICS[:1])
    targets = assign(specs(dict.fromkeys("abc", topics), {}), {TOPICS[0]: frozenset({0})})
    assert targets == {member_id: {TOPICS[0]: frozenset({0})} for member_id in "abc"}
