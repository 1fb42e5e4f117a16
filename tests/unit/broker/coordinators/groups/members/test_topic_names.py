"""The names of a subscription: their set, order and memory, and those of records that commands write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.members.topic_names import (
    NO_TOPIC_NAMES,
    WIDE_SUBSCRIPTION,
    NamesOfCommand,
    TopicNames,
    topic_names_in_steps,
)
from tidelog.protocol.steps import run_steps

texts = st.lists(st.text(max_size=3), max_size=20)


@given(texts)
def test_names_are_the_same_in_steps_and_at_once(names: list[str]) -> None:
    at_once, in_steps = TopicNames.of(names), run_steps(topic_names_in_steps(names))
    assert at_once == in_steps
    assert at_once.ordered == in_steps.ordered == tuple(sorted(set(names)))
    assert at_once.size_bytes(7) == in_steps.size_bytes(7) == sum(7 + len(name) for name in set(names))


def test_names_that_do_not_change_are_the_same_object() -> None:
    names = TopicNames.of(("b", "a"))
    assert names.changed_to(None, None) is names, "they are not sent"
    assert names.changed_to(("a", "b"), None) is names
    assert names.changed_to(("c",), None).ordered == ("c",)
    prepared = TopicNames.of(("d",))
    assert names.changed_to(("d",), prepared) is prepared
    assert NO_TOPIC_NAMES.changed_to((), None) is NO_TOPIC_NAMES


def test_a_subscription_is_wide_above_a_number_of_names() -> None:
    names = [str(number) for number in range(WIDE_SUBSCRIPTION + 1)]
    assert TopicNames.of(names).is_wide
    assert not TopicNames.of(names[1:]).is_wide


def test_the_replay_of_a_record_uses_the_names_of_its_command_once() -> None:
    names, written = NamesOfCommand(), TopicNames.of(("a", "b"))
    names.add(written)
    assert names.of_record(("a", "b")) is not written, "the record of another coordinator"
    assert names.of_record(written.ordered) is written
    assert names.of_record(written.ordered) is not written
    assert names.of_record(("b", "a", "b")).ordered == ("a", "b")
