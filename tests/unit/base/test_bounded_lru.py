"""The bounded LRU cache compared with a plain list: the bound and the order of eviction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.bounded_lru import BoundedLru

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["get", "put", "remove"]), st.integers(0, 6), st.integers(0, 12), st.integers(0, 9)
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 30), st.integers(0, 30))
def test_recency_order_matches_a_reference_list(
    steps: list[tuple[str, int, int, int]], capacity: int, retention_ms: int
) -> None:
    cache: BoundedLru[int, str] = BoundedLru(capacity, retention_ms)
    expected_entries: list[tuple[int, int, int]] = []  # key, weight, used
    now_ms = 0
    for action, key, weight, passed_ms in steps:
        now_ms += passed_ms
        live_entries = [entry for entry in expected_entries if now_ms - entry[2] <= retention_ms]
        current = next((entry for entry in live_entries if entry[0] == key), None)
        other_entries = [entry for entry in expected_entries if entry[0] != key]
        if action == "get":
            assert cache.get(key, now_ms) == (None if current is None else f"{key}/{current[1]}")
            if current is not None:
                expected_entries = [*other_entries, (key, current[1], now_ms)]
        elif action == "remove":
            cache.remove(key)
            expected_entries = other_entries
        elif weight > capacity:
            assert (key, f"{key}/{weight}") in cache.put(key, f"{key}/{weight}", weight, now_ms)
            expected_entries = other_entries
        else:
            cache.put(key, f"{key}/{weight}", weight, now_ms)
            expected_entries = other_entries
            while expected_entries and (
                now_ms - expected_entries[0][2] > retention_ms
                or sum(entry[1] for entry in expected_entries) > capacity - weight
            ):
                expected_entries.pop(0)
            expected_entries.append((key, weight, now_ms))
        assert list(cache) == [entry[0] for entry in expected_entries]
        assert cache.weight == sum(entry[1] for entry in expected_entries) <= capacity


def test_deleted_items_are_reported() -> None:
    cache: BoundedLru[str, int] = BoundedLru(10, None)
    assert cache.put("a", 1, 6, 0) == []
    assert cache.put("b", 2, 4, 0) == []
    assert cache.put("a", 3, 6, 0) == [("a", 1)]
    assert cache.put("c", 4, 5, 0) == [("b", 2), ("a", 3)]
    assert cache.shrink(0, 0) == [("c", 4)]
