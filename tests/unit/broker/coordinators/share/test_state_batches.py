"""Combined batches have, for each offset, the state with the highest priority."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidelog.broker.coordinators.share.persister import ShareStateBatch
from tidelog.broker.coordinators.share.state_batches import add_batches, combine_batches

BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: ShareStateBatch(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 3),
    ),
    max_size=12,
)


def by_offset(batches: list[ShareStateBatch], start_offset: int | None) -> dict[int, tuple[int, int]]:
    """Return delivery count and state of each offset, computed one by one."""
    states: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            if start_offset is None or offset >= start_offset:
                state = batch.delivery_count, batch.delivery_state
                states[offset] = max(states.get(offset, state), state)
    return states


@given(BATCHES, st.none() | st.integers(0, 45))
@example([ShareStateBatch(0, 9, 0, 1), ShareStateBatch(3, 5, 2, 1)], None)
def test_combined_batches_are_sorted_and_have_the_state_of_each_offset(
    batches: list[ShareStateBatch], start_offset: int | None
) -> None:
    combined = combine_batches(batches, start_offset)
    for lower, upper in pairwise(combined):
        assert lower.last_offset < upper.first_offset
    assert by_offset(list(combined), None) == by_offset(batches, start_offset)


@settings(max_examples=300)
@given(st.lists(st.tuples(BATCHES, st.none() | st.integers(0, 45)), max_size=5))
def test_adding_batches_has_the_result_of_combining_all(
    steps: list[tuple[list[ShareStateBatch], int | None]],
) -> None:
    combined: tuple[ShareStateBatch, ...] = ()
    for added, start_offset in steps:
        expected = combine_batches((*combined, *added), start_offset)
        assert add_batches(combined, added, start_offset) == expected
        combined = expected


def test_neighbours_with_the_same_state_become_one_batch() -> None:
    batches = [ShareStateBatch(4, 6, 2, 1), ShareStateBatch(0, 3, 2, 1), ShareStateBatch(7, 7, 4, 1)]
    assert combine_batches(batches, None) == (ShareStateBatch(0, 6, 2, 1), ShareStateBatch(7, 7, 4, 1))


def test_a_higher_count_replaces_the_middle_of_a_batch() -> None:
    batches = [ShareStateBatch(0, 9, 2, 1), ShareStateBatch(3, 5, 0, 2)]
    assert combine_batches(batches, 2) == (
        ShareStateBatch(2, 2, 2, 1),
        ShareStateBatch(3, 5, 0, 2),
        ShareStateBatch(6, 9, 2, 1),
    )
