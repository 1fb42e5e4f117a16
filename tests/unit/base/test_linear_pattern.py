"""Patterns from outside: the syntax of RE2, the whole text, bounds."""

from __future__ import annotations

import pytest

from tidelog.base.linear_pattern import CHARACTERS_MAX, LinearPattern


def test_the_whole_text_must_match() -> None:
    assert LinearPattern("11.1.*").matches("11.1.2")
    assert not LinearPattern("11.1").matches("11.1.2")


def test_a_pattern_with_exponential_backtracking_is_matched_in_linear_time() -> None:
    assert not LinearPattern("(a+)+b").matches("a" * 32_000 + "c")


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a{9999}{9999}", "a" * (CHARACTERS_MAX + 1)])
def test_unsupported_and_oversized_patterns_are_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        LinearPattern(pattern)
