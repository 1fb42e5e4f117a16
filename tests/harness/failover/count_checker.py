"""The verdict about an application that counts words exactly once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

SHOWN_MAX: Final = 5


def find_miscounts(
    acknowledged: Mapping[str, int], occurrences: Mapping[str, int], counts: Mapping[str, Sequence[int]]
) -> list[str]:
    """Return what is wrong.

    `acknowledged` and `occurrences`: how often each word was written with an acknowledgement, and how often
    it is in the input. `counts`: the committed counts of each word in the order of the output. The
    application writes one count for each occurrence, so they are 1, 2, 3, ... up to their number.
    """
    problems = []
    for word in sorted(acknowledged.keys() | occurrences.keys() | counts.keys()):
        written, in_input = acknowledged.get(word, 0), occurrences.get(word, 0)
        if in_input < written:
            problems.append(
                f"{word!r} was acknowledged {written} times, and is in the input {in_input} times"
            )
        counted = counts.get(word, ())
        wrong = first_difference(counted, range(1, in_input + 1))
        if wrong is not None:
            end = counted[-1] if counted else 0
            problems.append(
                f"{word!r} is in the input {in_input} times; it has {len(counted)} counts up to {end}, "
                f"of which number {wrong + 1} is {list(counted[wrong : wrong + SHOWN_MAX])}"
            )
    return problems


def first_difference(counted: Sequence[int], expected: Sequence[int]) -> int | None:
    """Return the first index at which the sequences differ; None if they are equal."""
    for index, (one, other) in enumerate(zip(counted, expected, strict=False)):
        if one != other:
            return index
    return None if len(counted) == len(expected) else min(len(counted), len(expected))


def words_of(lines: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs in `lines`."""
    return Counter(word for line in lines for word in line.split())
