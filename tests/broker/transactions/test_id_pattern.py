"""Patterns over transactional ids match as Python's do, but in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.transactions.id_pattern import CHARACTERS_MAX, IdPattern
from protocol.errors import ErrorCode, KafkaError

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "^", "$", "1", "-"])

LONG = "a" * (CHARACTERS_MAX + 1)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = inner.map(lambda text: f"({text})")
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.builds(
            lambda text, times: text + times,
            group,
            st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"]),
        ),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(ATOMS, grown, max_leaves=6), st.text("ab1.-", max_size=6))
def test_an_id_matches_when_python_says_so(pattern: str, transactional_id: str) -> None:
    expected = re.fullmatch(pattern, transactional_id, re.ASCII) is not None
    assert IdPattern(pattern).matches(transactional_id) == expected


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*b", "a?" * 400 + "a{400}b"])
def test_what_makes_other_matchers_go_back_for_ever_is_answered(pattern: str) -> None:
    assert not IdPattern(pattern).matches("a" * 200 + "c")


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[", "*", "a{2,1}", "(?=a)", r"(a)\1", "\\", r"\A", "[b-a]", "a{9999}{9999}", LONG],
)
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as error:
        IdPattern(pattern)
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_groups_in_groups_do_not_use_up_the_stack() -> None:
    with pytest.raises(KafkaError) as error:
        IdPattern("(" * 400 + "a" + ")" * 400)
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert IdPattern("(" * 40 + "a" + ")" * 40).matches("a")


def test_one_id_does_not_take_minutes_however_long_it_is() -> None:
    with pytest.raises(KafkaError) as error:
        IdPattern("(.?){1600}").matches("a" * 32_000)
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert IdPattern("tides-.*").matches("tides-" + "a" * 32_000)
