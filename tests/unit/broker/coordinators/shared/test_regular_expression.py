"""Patterns match as in Python where both have the syntax, but in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.base.linear_pattern import CHARACTERS_MAX
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.protocol.errors import ErrorCode, KafkaError

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "^", "$", "1", "-", "é"])


def extend_pattern(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
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
@given(st.recursive(ATOMS, extend_pattern, max_leaves=6), st.text("ab1.-é", max_size=6))
def test_matches_equal_those_of_python(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern, text, re.ASCII) is not None
    assert RegularExpression(pattern).matches(text) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\pL+", "abc", True),
        ("(?i)TIDES-.*", "tides-1", True),
        ("[[:alpha:]]+", "abc", True),
        (r"\Qa.c\E", "abc", False),
        (r"\Aabc\z", "abc", True),
        ("b", "abc", False),
        ("tides-.*", "tides-" + "a" * 32_000, True),
    ],
)
def test_the_syntax_is_re2s_and_the_whole_text_must_match(pattern: str, text: str, matches: bool) -> None:
    assert RegularExpression(pattern).matches(text) is matches


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*b", "a?" * 400 + "a{400}b", "(.?){1000}"])
def test_patterns_with_exponential_backtracking_are_matched_in_linear_time(pattern: str) -> None:
    assert not RegularExpression(pattern).matches("a" * 32_000 + "c")


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[", "*", "a{2,1}", "(?=a)", r"(a)\1", "\\", "[b-a]", "a{9999}{9999}",
        "(" * 2_000, "((((.{100}){100}){100}){100})", "a" * (CHARACTERS_MAX + 1),
    ],
)  # fmt: skip
def test_unsupported_and_oversized_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as error:
        RegularExpression(pattern)
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
