"""The latest offset of each key, within a bound."""

from __future__ import annotations

import tracemalloc

from tidelog.storage.compaction.offset_map import ENTRY_BYTES, WHOLE_KEY_BYTES_MAX, OffsetMap, represented


def test_the_larger_offset_of_a_key_is_kept() -> None:
    offsets = OffsetMap(10)
    assert offsets.put_all([b"a", b"b", b"a"], [1, 2, 3])
    assert offsets.put_all([b"b"], [7])
    assert offsets.offsets == {b"a": 3, b"b": 7}
    assert offsets.utilization == 0.2


def test_a_full_map_stops_within_a_batch_but_never_within_the_first() -> None:
    offsets = OffsetMap(2)
    assert offsets.put_all([b"a", b"b", b"c"], [0, 1, 2])
    full = OffsetMap(2)
    assert full.put_all([b"a"], [0])
    assert not full.put_all([b"b", b"c", b"a"], [1, 2, 3])
    assert full.offsets == {b"a": 0, b"b": 1}
    exact = OffsetMap(2)
    assert exact.put_all([b"a"], [0]) and exact.put_all([b"a", b"b"], [1, 2])


def test_an_offset_of_a_key_never_decreases() -> None:
    offsets = OffsetMap(1)
    assert offsets.latest_offset == -1
    offsets.taken_up_to(5)
    offsets.taken_up_to(3)
    assert offsets.latest_offset == 5


def test_memory_per_key_is_as_documented() -> None:
    offsets = OffsetMap.within(2_000_000, 0.9)
    assert offsets.key_count_max == 1_800_000 // ENTRY_BYTES
    tracemalloc.start()
    for number in range(offsets.key_count_max):
        offsets.put_all(represented([b"%0100d" % number]), [10**9 + number])
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(offsets.offsets) == offsets.key_count_max
    assert most_bytes < 1_800_000


def test_long_keys_are_hashed_to_values_no_short_key_has() -> None:
    short, long = b"k" * WHOLE_KEY_BYTES_MAX, b"k" * (WHOLE_KEY_BYTES_MAX + 1)
    assert represented([short]) == [short]
    (kept, digest) = represented([short, long])
    assert kept == short and len(digest) > WHOLE_KEY_BYTES_MAX
    assert represented([digest]) != [digest]
    assert represented([]) == []
