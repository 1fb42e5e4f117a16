"""The flags of the latest records, compared with a look-up of each key."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.support.logs.compaction import HASHER
from tidelog.protocol.batch import read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.record import read_payload
from tidelog.protocol.record_columns.key_columns import KeyColumns, Payloads, read_key_columns
from tidelog.storage.compaction import latest_records
from tidelog.storage.compaction.latest_records import LatestRecords
from tidelog.storage.compaction.offset_map import OffsetMap


def columns_of(keys: list[bytes | None], base_offset: int) -> KeyColumns:
    builder = BatchBuilder(base_offset=base_offset)
    for key in keys:
        builder.append(0, key, b"v")
    batch = builder.build()
    payload = read_payload(batch, 0, read_header(batch), 1 << 20)
    return read_key_columns(Payloads.joined([payload], np.array([len(keys)]), np.array([base_offset])))


@pytest.mark.parametrize("flags_max", [0, 1 << 20])
@pytest.mark.parametrize("first_dirty_offset", [0, 30, 95])
def test_a_record_is_the_latest_if_no_later_one_has_its_key(
    monkeypatch: pytest.MonkeyPatch, flags_max: int, first_dirty_offset: int
) -> None:
    monkeypatch.setattr(latest_records, "_FLAGS_MAX", flags_max)
    random = Random(first_dirty_offset)
    keys = [random.choice([None, *(b"%d" % number for number in range(25))]) for _ in range(100)]
    offsets = OffsetMap(HASHER, 100, 200)
    dirty = columns_of(keys[first_dirty_offset:], first_dirty_offset)
    rows = np.flatnonzero(dirty.key_lengths >= 0)
    hashes = HASHER.hashes(dirty.data, dirty.key_starts[rows], dirty.key_lengths[rows])
    offsets.put(hashes, dirty.offsets[rows])
    offsets.taken_up_to(99)
    latest = LatestRecords(offsets, first_dirty_offset)
    dirty_keys = {key: number for number, key in enumerate(keys) if number >= first_dirty_offset}
    expected = [key is not None and dirty_keys.get(key, 0) <= number for number, key in enumerate(keys)]
    assert latest.among(columns_of(keys, 0)).tolist() == expected
    assert latest.among(dirty).tolist() == expected[first_dirty_offset:]


def test_an_empty_map_removes_only_records_without_a_key() -> None:
    latest = LatestRecords(OffsetMap(HASHER, 10, 20), 0)
    assert latest.among(columns_of([b"a", None, b"a"], 5)).tolist() == [True, False, True]
