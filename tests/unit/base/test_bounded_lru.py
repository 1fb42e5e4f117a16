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
    naive: list[tuple[int, int, int]] = []  # key, weight, used
    now_ms = 0
    for action, key, weight, passed_ms in steps:
        now_ms += passed_ms
        live = [entry for entry in naive if now_ms - entry[2] <= retention_ms]
        found = next((entry for entry in live if entry[0] == key), None)
        rest = [entry for entry in naive if entry[0] != key]
        if action == "get":
            assert cache.get(key, now_ms) == (None if found is None else f"{key}/{found[1]}")
            if found is not None:
                naive = [*rest, (key, found[1], now_ms)]
        elif action == "remove":
            cache.remove(key)
            naive = rest
        elif weight > capacity:
            assert (key, f"{key}/{weight}") in cache.put(key, f"{key}/{weight}", weight, now_ms)
            naive = rest
        else:
            cache.put(key, f"{key}/{weight}", weight, now_ms)
            naive = rest
            while naive and (
                now_ms - naive[0][2] > retention_ms or sum(entry[1] for entry in naive) > capacity - weight
            ):
                naive.pop(0)
            naive.append((key, weight, now_ms))
        assert list(cache) == [entry[0] for entry in naive]
        assert cache.weight == sum(entry[1] for entry in naive) <= capacity


def test_deleted_items_are_reported() -> None:
    cache: BoundedLru[str, int] = BoundedLru(10, None)
    assert cache.put("a", 1, 6, 0) == []
    assert cache.put("b", 2, 4, 0) == []
    assert cache.put("a", 3, 6, 0) == [("a", 1)]
    assert cache.put("c", 4, 5, 0) == [("b", 2), ("a", 3)]
    assert cache.shrink(0, 0) == [("c", 4)]
