"""Leader epochs found by requests, compared with those of the leader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.remote.inspection.lineage_walk import LineageWalk
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache


def walk(
    entries: list[tuple[int, int]], log_start: int, end: int, requested: int | None = None
) -> LineageWalk:
    """Query a leader that has these epochs until no query is left."""
    cache = LeaderEpochCache.of(EpochEntry(*entry) for entry in entries)
    walking = LineageWalk(entries[-1][0] if requested is None else requested, log_start)
    while walking.next_epoch is not None:
        walking.add_response(*cache.end_offset_for(walking.next_epoch, end))
    return walking


@pytest.mark.parametrize(
    ("entries", "log_start", "expected"),
    [
        ([(0, 0)], 0, [(0, 0)]),
        ([(5, 0), (7, 10)], 0, [(5, 0), (7, 10)]),
        ([(5, 0), (7, 10)], 10, [(7, 10)]),
        ([(0, 0), (1, 10), (9, 20)], 15, [(1, 10), (9, 20)]),
        ([(4, 100)], 0, [(4, 100)]),
    ],
)
def test_the_epochs_of_a_log_are_queried(
    entries: list[tuple[int, int]], log_start: int, expected: list[tuple[int, int]]
) -> None:
    walking = walk(entries, log_start, 30 + log_start)
    assert list(walking.entries) == expected
    assert walking.log_end_offset == 30 + log_start


def test_a_leader_without_its_own_epoch_is_handled() -> None:
    walking = walk([(2, 0), (3, 5)], 0, 9, requested=6)
    assert list(walking.entries) == [(2, 0), (3, 5)]
    assert walking.log_end_offset == 9


def test_a_partition_without_leader_is_not_queried() -> None:
    walking = LineageWalk(-1, 0)
    assert (walking.next_epoch, walking.entries, walking.log_end_offset) == (None, (), None)


@given(st.data())
def test_every_offset_belongs_to_the_leaders_epoch(data: st.DataObject) -> None:
    epochs = sorted(data.draw(st.sets(st.integers(0, 30), min_size=1, max_size=8)))
    starts = sorted(data.draw(st.sets(st.integers(0, 60), min_size=len(epochs), max_size=len(epochs))))
    entries = list(zip(epochs, starts, strict=True))
    log_start = data.draw(st.integers(starts[0], starts[-1] + 5))
    end = max(starts[-1], log_start) + data.draw(st.integers(0, 5))
    leader = LeaderEpochCache.of(EpochEntry(*entry) for entry in entries)
    leader_epochs = LeaderEpochCache.of(walk(entries, log_start, end).entries)
    for offset in range(log_start, end):
        assert leader_epochs.epoch_for_offset(offset) == leader.epoch_for_offset(offset)
