"""The checker of a word count finds every kind of wrong count."""

from __future__ import annotations

import pytest

from tests.harness.failover.count_checker import find_miscounts, words_of

INPUT = words_of(["high tide", "low tide"])


def test_counts_from_one_to_the_number_of_occurrences_are_right() -> None:
    counts = {"high": [1], "low": [1], "tide": [1, 2]}
    assert find_miscounts({"tide": 1}, INPUT, counts) == []


@pytest.mark.parametrize(
    ("tide", "text"),
    [
        ([1], "number 2 is []"),  # a record was lost
        ([2], "number 1 is [2]"),  # a committed count was lost
        ([1, 2, 3], "number 3 is [3]"),  # a record was counted twice
        ([1, 1, 2], "number 2 is [1, 2]"),  # a count was written twice
        ([1, 2, 1, 2], "number 3 is [1, 2]"),  # the state was lost
        ([], "0 counts up to 0"),
    ],
)
def test_a_lost_or_repeated_count_is_found(tide: list[int], text: str) -> None:
    [problem] = find_miscounts({}, INPUT, {"high": [1], "low": [1], "tide": tide})
    assert problem.startswith("'tide' is in the input 2 times") and text in problem


def test_an_acknowledged_line_that_is_not_in_the_input_is_found() -> None:
    [problem] = find_miscounts({"ebb": 1}, {}, {})
    assert problem == "'ebb' was acknowledged 1 times, and is in the input 0 times"


def test_a_count_of_a_word_that_was_never_written_is_found() -> None:
    [problem] = find_miscounts({}, {}, {"flood": [1]})
    assert "'flood' is in the input 0 times" in problem
