"""The latest offset of each key, within a bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs.compaction import HASHER
from tidelog.protocol.record_columns.varints import PADDING
from tidelog.storage.compaction.key_hashes import KeyHashes
from tidelog.storage.compaction.offset_map import SLOT_BYTES, OffsetMap


def hashes(*keys: bytes) -> KeyHashes:
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    return HASHER.hashes(b"".join(keys) + PADDING, np.cumsum(lengths) - lengths, lengths)


def put(offsets: OffsetMap, keys: list[bytes], values: list[int]) -> bool:
    return offsets.put_batch(hashes(*keys), np.array(values, dtype=np.int64))


def latest(offsets: OffsetMap, *keys: bytes) -> list[int]:
    return list(offsets.latest(hashes(*keys)).tolist())


def test_the_larger_offset_of_a_key_is_kept() -> None:
    offsets = OffsetMap(HASHER, 10, 20)
    assert put(offsets, [b"a", b"b", b"a"], [0, 2, 3])
    assert put(offsets, [b"b"], [7])
    assert latest(offsets, b"a", b"b", b"c", b"a") == [3, 7, -1, 3]
    assert offsets.key_count == 2 and offsets.utilization == 0.2


def test_a_full_map_stops_within_a_batch_but_never_within_the_first() -> None:
    offsets = OffsetMap(HASHER, 2, 4)
    assert put(offsets, [b"a", b"b", b"c"], [0, 1, 2])
    assert latest(offsets, b"a", b"b", b"c") == [0, 1, 2]
    assert not put(offsets, [b"a"], [3])
    full = OffsetMap(HASHER, 2, 4)
    assert put(full, [b"a"], [0])
    assert not put(full, [b"b", b"c", b"a"], [1, 2, 3])
    assert latest(full, b"a", b"b", b"c") == [0, 1, -1]
    exact = OffsetMap(HASHER, 2, 4)
    assert put(exact, [b"a"], [0]) and put(exact, [b"a", b"b"], [1, 2])


def test_a_batch_without_keys_fits_in_a_full_map() -> None:
    offsets = OffsetMap(HASHER, 1, 2)
    assert put(offsets, [b"a"], [0]) and put(offsets, [], [])


def test_an_offset_of_a_key_never_decreases() -> None:
    offsets = OffsetMap(HASHER, 1, 2)
    assert offsets.latest_offset == -1
    offsets.taken_up_to(5)
    offsets.taken_up_to(3)
    assert offsets.latest_offset == 5


def test_five_million_keys_fit_into_the_default_buffer() -> None:
    offsets = OffsetMap.within(HASHER, 134_217_728, 0.9, record_count_max=10**9)
    assert offsets.key_count_max > 5_000_000
    assert offsets._table.nbytes <= 134_217_728
    smallest = OffsetMap.within(HASHER, 0, 0.9, record_count_max=10**9)
    assert smallest.key_count_max == 1 and smallest._table.nbytes == 2 * SLOT_BYTES


@pytest.mark.parametrize("load_factor", [0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("record_count", [0, 1, 7, 5000])
def test_a_table_for_few_records_is_small_and_sufficient(record_count: int, load_factor: float) -> None:
    offsets = OffsetMap.within(HASHER, 134_217_728, load_factor, record_count_max=record_count)
    assert offsets.fits(record_count)
    assert offsets._table.nbytes <= SLOT_BYTES * (500 + record_count / load_factor)


@given(st.lists(st.lists(st.binary(max_size=2), max_size=60), max_size=6), st.sampled_from([0, 1, 2, 50]))
def test_a_map_that_is_almost_full_equals_a_dictionary(batches: list[list[bytes]], spare: int) -> None:
    key_count = max(1, len({key for batch in batches for key in batch})) + spare
    slot_count = next(count for count in range(key_count + 1, 2 * key_count + 2) if is_prime(count))
    offsets = OffsetMap(HASHER, key_count, slot_count)
    assert offsets.key_count_max == key_count
    expected: dict[bytes, int] = {}
    next_offset = 0
    for batch in batches:
        values = list(range(next_offset, next_offset + len(batch)))
        next_offset += len(batch)
        expected |= dict(zip(batch, values, strict=True))
        offsets.put(hashes(*batch), np.array(values, dtype=np.int64))
    assert latest(offsets, *expected, b"another") == [*expected.values(), -1]
    assert offsets.key_count == len(expected)


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, number))
