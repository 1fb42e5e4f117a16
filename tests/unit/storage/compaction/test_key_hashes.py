"""Hashes of keys: equal for equal keys only, and different in each round."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs.compaction import HASHER
from tidelog.protocol.record_columns.varints import PADDING
from tidelog.storage.compaction.key_hashes import SECRET_BYTES, SHORT_KEY_BYTES_MAX, KeyHasher

KEYS = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.binary(min_size=SHORT_KEY_BYTES_MAX - 2, max_size=SHORT_KEY_BYTES_MAX + 2),
        st.integers(0, 5).map(bytes),
    ),
    max_size=40,
)


def hashes(keys: list[bytes], hasher: KeyHasher = HASHER) -> list[tuple[int, int]]:
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    high, low = hasher.hashes(b"".join(keys) + PADDING, np.cumsum(lengths) - lengths, lengths)
    return list(zip(high.tolist(), low.tolist(), strict=True))


@given(KEYS)
def test_two_keys_have_one_hash_only_if_they_are_equal(keys: list[bytes]) -> None:
    together = hashes(keys)
    assert [hashes([key])[0] for key in keys] == together
    assert len(set(together)) == len(set(keys))


def test_every_byte_and_the_length_of_a_key_count() -> None:
    for length in (1, 7, 8, 9, 64, SHORT_KEY_BYTES_MAX, SHORT_KEY_BYTES_MAX + 1, 5000):
        key = bytes(length)
        changed = [key[:at] + b"\1" + key[at + 1 :] for at in range(0, length, max(1, length // 50))]
        keys = [key, key + b"\0", *changed]
        assert len(set(hashes(keys))) == len(keys)


def test_hashes_depend_on_the_secret() -> None:
    other = KeyHasher(random.Random(2).randbytes(SECRET_BYTES))
    for key in (b"", b"key", b"k" * 500):
        assert hashes([key]) != hashes([key], other)


def test_hashes_are_spread_evenly() -> None:
    values = hashes([b"key-%010d" % number for number in range(20_000)])
    for bits in zip(*values, strict=True):
        counts = np.bincount(np.array(bits, dtype=np.uint64).view(np.int64) >> 56 & 0xFF, minlength=256)
        assert counts.min() > 20 and counts.max() < 160  # 78 on average
