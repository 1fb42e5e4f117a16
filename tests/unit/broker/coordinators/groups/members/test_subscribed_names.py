"""The counts of the names to which the members of a group subscribe, against a naive model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.members import topic_names
from tidelog.broker.coordinators.groups.members.subscribed_names import SubscribedNames
from tidelog.broker.coordinators.groups.members.topic_names import NO_TOPIC_NAMES, TopicNames

NAMES = "abcde"
changes = st.lists(st.tuples(st.integers(0, 3), st.sets(st.sampled_from(NAMES))), max_size=30)


@given(changes, st.integers(0, 4))
def test_wide_and_other_subscriptions_have_the_topics_of_all_members(
    changes: list[tuple[int, set[str]]], wide_from: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_names, "WIDE_SUBSCRIPTION", wide_from)
        subscribed = SubscribedNames()
        members: dict[int, TopicNames] = {}
        for number, names in changes:
            before, copy = subscribed, subscribed.copy()
            copy.replace(members.get(number, NO_TOPIC_NAMES), TopicNames.of(names))
            assert set().union(*before.sets()) == set().union(*(each.as_set for each in members.values()))
            subscribed, members[number] = copy, TopicNames.of(names)
        counts = Counter(name for each in members.values() for name in each.ordered)
        assert set().union(*subscribed.sets()) == counts.keys()
        assert bool(subscribed) == bool(counts)
        assert [name in subscribed for name in NAMES] == [name in counts for name in NAMES]
        assert subscribed.are_equal(len(members)) == all(each == len(members) for each in counts.values())
        assert subscribed.include_any({"a", "b", "x"}) == bool(counts.keys() & {"a", "b"})
        assert subscribed.is_wide == any(len(each.ordered) > wide_from for each in members.values())
