"""The record table compared with the reader that creates record objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import BatchBuilder, iterate_payload, read_payload
from tidelog.protocol.record_table import (
    join_records,
    max_timestamp_delta,
    scan_records,
    with_shifted_timestamp,
)

KEYS = st.one_of(st.none(), st.binary(max_size=100), st.just(b"k" * 20_000))
VALUES = st.one_of(st.none(), st.binary(max_size=200), st.just(b"v" * 9_000))
RECORDS = st.lists(st.tuples(st.integers(-5_000, 2**40), KEYS, VALUES), max_size=80)
Records = list[tuple[int, bytes | None, bytes | None]]


def built(records: Records) -> tuple[bytes, int]:
    builder = BatchBuilder()
    for timestamp, key, value in records:
        builder.append(timestamp, key, value, [("h", b"x")] if timestamp % 2 else [])
    batch = builder.build()
    header = read_header(batch)
    return read_payload(batch, 0, header, 1 << 28), header.record_count


@given(RECORDS)
def test_positions_keys_and_tombstones_equal_the_records(records: Records) -> None:
    data, count = built(records)
    table = scan_records(data, count)
    assert table.keys == [key for _, key, _ in records]
    assert table.offset_deltas == list(range(count))
    assert table.tombstones == [index for index, (_, _, value) in enumerate(records) if value is None]
    assert table.has_null_keys == any(key is None for _, key, _ in records)
    starts = [0, *table.ends[:-1]] if records else []
    assert join_records(data, zip(starts, table.ends, strict=True)) == data
    base = records[0][0] if records else 0
    if records:
        assert base + max_timestamp_delta(data, starts) == max(stamp for stamp, _, _ in records)
    assert [base + max_timestamp_delta(data, [start]) for start in starts] == [
        stamp for stamp, _, _ in records
    ]


@given(RECORDS.filter(bool), st.integers(-(2**40), 2**40))
def test_changed_timestamps_change_nothing_else(records: Records, by_ms: int) -> None:
    data, count = built(records)
    table = scan_records(data, count)
    starts = [0, *table.ends[:-1]]
    moved = b"".join(
        with_shifted_timestamp(data, start, end, by_ms) for start, end in zip(starts, table.ends, strict=True)
    )
    header = read_header(BatchBuilder().build())._replace(
        record_count=count, base_timestamp=1000, last_offset_delta=count
    )
    before, after = iterate_payload(data, header), iterate_payload(moved, header)
    assert [one._replace(timestamp=one.timestamp + by_ms) for one in before] == list(after)


@given(RECORDS.filter(bool), st.data())
def test_random_bytes_are_refused_or_have_positions_within_the_bytes(
    records: Records, draw: st.DataObject
) -> None:
    data, count = built([(stamp, key and key[:50], value and value[:50]) for stamp, key, value in records])
    at = draw.draw(st.integers(0, len(data) - 1))
    changed = data[:at] + draw.draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
    try:
        table = scan_records(changed, count)
    except DecodeError:
        return
    assert table.ends == sorted(table.ends) and table.ends[-1] == len(changed)


@pytest.mark.parametrize(
    ("data", "count"), [(b"", 1), (b"\x00", 0), (b"\x0e\x00\x00\x00\x01\x01\x00" * 2, 1), (b"\xff" * 40, 1)]
)
def test_a_wrong_record_count_is_refused(data: bytes, count: int) -> None:
    with pytest.raises(DecodeError):
        scan_records(data, count)
