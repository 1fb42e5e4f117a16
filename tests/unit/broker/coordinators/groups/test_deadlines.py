"""Deadlines compared with a dictionary that is searched for the minimum."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.deadlines import (
    CORRECTIONS_MAX,
    DeadlineKey,
    DeadlineKind,
    Deadlines,
)

KEYS = [DeadlineKey(DeadlineKind.SESSION, "g", str(index)) for index in range(5)]


@pytest.fixture(autouse=True, params=[64, 0])
def spare_entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few deadlines be enough for the removal of outdated entries, too."""
    monkeypatch.setattr("tidelog.broker.coordinators.groups.deadlines._SPARE_ENTRIES", request.param)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.just("pop"), st.sampled_from(KEYS), st.integers(0, 50)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(steps=operations)
def test_deadlines_expire_in_order_after_changes(
    steps: list[tuple[str, DeadlineKey, int]],
) -> None:
    deadlines, model = Deadlines(), dict[DeadlineKey, int]()
    for operation, key, time_ms in steps:
        if operation == "set":
            deadlines.set(key, time_ms)
            model[key] = time_ms
        elif operation == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            popped = deadlines.pop_expired(time_ms)
            due = {key: due_ms for key, due_ms in model.items() if due_ms <= time_ms}
            if popped is None:
                assert not due
            else:
                assert due[popped] == min(due.values())
                del model[popped]
        first_ms = deadlines.next_deadline_ms()
        assert (first_ms is None) == (not model)
        assert first_ms is None or first_ms <= min(model.values())
        assert len(deadlines) == len(model)


def test_a_deadline_that_moves_with_each_heartbeat_is_corrected_once_at_its_first_time() -> None:
    deadlines, (key, *_) = Deadlines(), KEYS
    for time_ms in range(1_000):
        deadlines.set(key, 45_000 + time_ms)
    assert (deadlines.next_deadline_ms(), len(deadlines._heap)) == (45_000, 1)
    assert deadlines.pop_expired(45_000) is None
    assert deadlines.next_deadline_ms() == 45_999
    assert deadlines.pop_expired(45_999) == key


def test_many_moved_deadlines_are_corrected_in_several_calls() -> None:
    deadlines, count = Deadlines(), 3 * CORRECTIONS_MAX
    for index in range(count):
        key = DeadlineKey(DeadlineKind.SESSION, "g", str(index))
        deadlines.set(key, 100)
        deadlines.set(key, 200)
    calls = 0
    while deadlines.next_deadline_ms() == 100:
        assert deadlines.pop_expired(150) is None
        calls += 1
    assert calls == 3
    assert deadlines.next_deadline_ms() == 200 and len(deadlines) == count


def test_added_and_removed_members_do_not_fill_the_heap() -> None:
    deadlines = Deadlines()
    for index in range(10_000):
        key = DeadlineKey(DeadlineKind.SESSION, "g", str(index))
        deadlines.set(key, 300_000)
        deadlines.set(key, 10_000)
        deadlines.cancel(key)
    assert len(deadlines) == 0
    assert len(deadlines._heap) <= 70
    assert deadlines.next_deadline_ms() is None


@pytest.mark.parametrize("order", [1, -1], ids=["earliest first", "latest first"])
def test_the_cancelled_deadlines_of_many_members_do_not_stay_in_memory(order: int) -> None:
    """Members may leave, and no other deadline may be set after that."""
    deadlines, count = Deadlines(), 10_000
    keys = [DeadlineKey(DeadlineKind.SESSION, "g", str(index)) for index in range(count)]
    for index, key in enumerate(keys):
        deadlines.set(key, 10_000 + index)
    for key in keys[1:-1][::order]:
        deadlines.cancel(key)
        entries = len(deadlines._heap) + len(deadlines._former)
        assert entries <= 3 * len(deadlines) + 64
        assert len(deadlines._valid_entries) <= entries
    deadlines.set(keys[-1], 5_000)
    assert [deadlines.pop_expired(10_000) for _ in range(3)] == [keys[-1], keys[0], None]
    assert deadlines.next_deadline_ms() is None
