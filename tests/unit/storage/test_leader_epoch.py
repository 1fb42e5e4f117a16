"""The leader epoch cache compared with Kafka's results and a plain list; scenarios of its KIPs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.paths import GOLDEN_FILES
from tidelog.storage.leader_epoch import UNDEFINED, EpochEntry, LeaderEpochCache, epoch_spans

TRANSCRIPT = GOLDEN_FILES / "storage" / "leader-epochs.transcript"


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache.of(EpochEntry(*entry) for entry in entries)


def text_of(entries: list[EpochEntry]) -> str:
    return ",".join(f"{epoch}:{start}" for epoch, start in entries)


def text(value: object) -> str:
    return "none" if value is None else str(value)


def perform(cache: LeaderEpochCache, operation: str, *arguments: int) -> str:
    """Perform one line of the transcript and return its result in the transcript's format."""
    if operation == "end_offset_for":
        return "{},{}".format(*cache.end_offset_for(*arguments))
    if operation == "epoch_for_offset":
        return text(cache.epoch_for_offset(*arguments))
    if operation == "neighbours":
        return f"{text(cache.previous_epoch(*arguments))},{text(cache.next_epoch(*arguments))}"
    if operation == "entries_in_range":
        return text_of(cache.entries_in_range(*arguments))
    getattr(cache, operation)(*arguments)
    return "none"


def test_results_equal_kafkas_leader_epoch_cache() -> None:
    cache = LeaderEpochCache()
    lines = [line for line in TRANSCRIPT.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 300
    for number, line in enumerate(lines, 1):
        command, _, rest = line.partition(" -> ")
        result, _, entries = rest.partition(" | ")
        operation, *words = command.split()
        assert perform(cache, operation, *map(int, words)) == result, f"step {number}: {line}"
        assert text_of(cache.entries) == entries, f"step {number}: {line}"


def test_an_empty_cache_has_no_epoch() -> None:
    cache = LeaderEpochCache()
    assert (cache.latest_epoch, cache.earliest_entry) == (None, None)
    assert cache.end_offset_for(0, 100) == UNDEFINED
    assert cache.epoch_for_offset(5) is None
    assert not cache.truncate_from_end(0)
    assert not cache.truncate_from_start(10)
    assert not cache.clear()


def test_an_epoch_without_records_is_kept() -> None:
    """KIP-279: otherwise a follower could keep records that the leader does not have."""
    cache = cache_of((0, 0), (1, 10))
    assert cache.assign(2, 10)
    assert cache.entries == [(0, 0), (2, 10)]
    assert cache.end_offset_for(1, 10) == (0, 10)


def test_kip_279_an_unknown_epoch_returns_the_largest_epoch_below_it() -> None:
    cache = cache_of((0, 0), (2, 10), (5, 20))
    assert cache.end_offset_for(4, 30) == (2, 20)
    assert cache.end_offset_for(1, 30) == (0, 10)
    assert cache.end_offset_for(5, 30) == (5, 30)
    assert cache.end_offset_for(6, 30) == UNDEFINED
    assert cache.end_offset_for(-1, 30) == UNDEFINED


def test_kip_101_a_restarted_follower_truncates_to_the_leaders_end_of_its_epoch() -> None:
    leader, follower = cache_of((0, 0), (1, 3)), cache_of((0, 0))
    latest = follower.latest_epoch
    assert latest is not None
    assert leader.end_offset_for(latest, 8) == (0, 3), "the leader never had its records from 3 on"


def test_an_epoch_older_than_all_ends_at_the_start_of_the_oldest() -> None:
    cache = cache_of((4, 100), (5, 200))
    assert cache.end_offset_for(2, 300) == (2, 100)


def test_assigning_the_current_epoch_changes_nothing() -> None:
    cache = cache_of((3, 10))
    assert not cache.assign(3, 10)
    assert not cache.assign(3, 15)
    assert cache.assign(3, 8)
    assert cache.entries == [(3, 8)]


def test_a_new_entry_removes_contradicting_ones() -> None:
    cache = cache_of((1, 10), (2, 20), (4, 40))
    assert cache.assign(3, 15)
    assert cache.entries == [(1, 10), (3, 15)]


def test_truncation_from_the_end_keeps_the_epoch_of_the_last_record() -> None:
    cache = cache_of((1, 10), (2, 20), (4, 40))
    assert not cache.truncate_from_end(41)
    assert cache.truncate_from_end(40)
    assert cache.entries == [(1, 10), (2, 20)]
    assert not cache.truncate_from_end(-1)
    assert cache.truncate_from_end(10)
    assert cache.entries == []


def test_truncation_from_the_start_keeps_the_epoch_at_the_new_start() -> None:
    cache = cache_of((1, 10), (2, 20), (4, 40))
    assert not cache.truncate_from_start(9)
    assert cache.truncate_from_start(25)
    assert cache.entries == [(2, 25), (4, 40)]
    assert not cache.truncate_from_start(25)
    assert cache.truncate_from_start(1000)
    assert cache.entries == [(4, 1000)]


def test_negative_arguments_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="-1"):
        LeaderEpochCache().assign(-1, 0)
    with pytest.raises(AssertionError, match="-5"):
        LeaderEpochCache().assign(0, -5)


class EpochCacheMachine(RuleBasedStateMachine):
    """The model stores the epoch of every record of a log, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = LeaderEpochCache()
        self.start = 0
        self.records: list[int] = []
        self.epoch = 0

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    @rule(jump=st.integers(1, 3), count=st.integers(1, 5))
    def a_new_leader_writes(self, jump: int, count: int) -> None:
        self.epoch += jump
        self.cache.assign(self.epoch, self.end)
        self.records += [self.epoch] * count

    @rule(count=st.integers(1, 5))
    def the_leader_writes(self, count: int) -> None:
        self.cache.assign(self.epoch, self.end)
        self.records += [self.epoch] * count

    @rule(keep=st.floats(0, 1))
    def the_end_is_truncated(self, keep: float) -> None:
        del self.records[int(len(self.records) * keep) :]
        self.cache.truncate_from_end(self.end)

    @rule(drop=st.floats(0, 0.99))
    def the_start_is_truncated(self, drop: float) -> None:
        count = int(len(self.records) * drop)
        del self.records[:count]
        self.start += count
        self.cache.truncate_from_start(self.start)

    @invariant()
    def every_record_has_its_epoch(self) -> None:
        for offset in range(self.start, self.end):
            assert self.cache.epoch_for_offset(offset) == self.records[offset - self.start]

    @invariant()
    def epochs_end_where_a_later_one_begins(self) -> None:
        for epoch in {*self.records}:
            later = [self.start + index for index, other in enumerate(self.records) if other > epoch]
            expected = (epoch, later[0] if later else self.end)
            result = self.cache.end_offset_for(epoch, self.end)
            # An epoch that lost all its records may stay known at the end of the log.
            assert result == expected or (not later and result == (epoch, self.end))

    @invariant()
    def epochs_and_starts_increase(self) -> None:
        entries = self.cache.entries
        for before, after in pairwise(entries):
            assert before.epoch < after.epoch and before.start_offset < after.start_offset


TestAgainstOneEpochPerRecord = EpochCacheMachine.TestCase
TestAgainstOneEpochPerRecord.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    assert list(epoch_spans([(5, 0), (7, 10)], 30)) == [(5, 0, 10), (7, 10, 30)]
    assert list(epoch_spans([], 30)) == []
