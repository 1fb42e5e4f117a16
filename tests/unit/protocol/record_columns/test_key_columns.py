"""The key columns compared with the reader that creates record objects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.batch import BatchHeader, read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import Record, iterate_payload, read_payload
from tidelog.protocol.record_columns.key_columns import KeyColumns, Payloads, read_key_columns
from tidelog.protocol.record_columns.varints import written_varints

KEYS = st.one_of(st.none(), st.binary(max_size=100), st.just(b"k" * 20_000))
VALUES = st.one_of(st.none(), st.binary(max_size=200), st.just(b"v" * 9_000))
RECORDS = st.lists(st.tuples(st.integers(-5_000, 2**40), KEYS, VALUES), min_size=1, max_size=80)
Records = list[tuple[int, bytes | None, bytes | None]]


def build_batch(records: Records, base_offset: int = 0) -> tuple[BatchHeader, bytes]:
    builder = BatchBuilder(base_offset=base_offset)
    for timestamp, key, value in records:
        builder.append(timestamp, key, value, [("h", b"x")] if timestamp % 2 else [])
    batch = builder.build()
    header = read_header(batch)
    return header, read_payload(batch, 0, header, 1 << 28)


def read_columns(headers: list[BatchHeader], payloads: list[bytes]) -> KeyColumns:
    counts = np.array([header.record_count for header in headers])
    base_offsets = np.array([header.base_offset for header in headers])
    return read_key_columns(Payloads.joined(payloads, counts, base_offsets))


def keys_of(columns: KeyColumns) -> list[bytes | None]:
    return [
        columns.data[start : start + length] if length >= 0 else None
        for start, length in zip(columns.key_starts.tolist(), columns.key_lengths.tolist(), strict=True)
    ]


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(1, 70))
def test_columns_equal_the_records(batches: list[Records], repetitions: int) -> None:
    # With many batches, they are read in lockstep.
    pairs = [build_batch(records, 1000 * index) for index, records in enumerate(batches * repetitions)]
    headers, payloads = [header for header, _ in pairs], [payload for _, payload in pairs]
    expected: list[Record] = [
        record for header, payload in pairs for record in iterate_payload(payload, header)
    ]
    columns = read_columns(headers, payloads)
    assert keys_of(columns) == [record.key for record in expected]
    assert columns.offsets.tolist() == [record.offset for record in expected]
    assert columns.is_tombstone.tolist() == [record.value is None for record in expected]
    base = np.array([header.base_timestamp for header in headers])[columns.batch]
    assert (base + columns.timestamp_deltas).tolist() == [record.timestamp for record in expected]
    assert columns.first_rows.tolist() == [
        sum(header.record_count for header in headers[:index]) for index in range(len(headers))
    ]
    joined = b"".join(
        columns.data[start:end]
        for start, end in zip(columns.starts.tolist(), columns.ends.tolist(), strict=True)
    )
    assert joined == b"".join(payloads)


@given(RECORDS, st.data())
def test_random_bytes_are_refused_or_have_positions_within_the_bytes(
    records: Records, draw: st.DataObject
) -> None:
    header, data = build_batch(
        [(stamp, key and key[:50], value and value[:50]) for stamp, key, value in records]
    )
    at = draw.draw(st.integers(0, len(data) - 1))
    changed = data[:at] + draw.draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
    try:
        columns = read_columns([header], [changed])
    except DecodeError:
        return
    assert columns.ends.tolist() == sorted(columns.ends.tolist()) and columns.ends[-1] == len(changed)
    key_ends = columns.key_starts + np.maximum(columns.key_lengths, 0)
    assert (key_ends < columns.ends).all() and (columns.key_starts >= columns.starts).all()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda payload: payload + b"\0", "do not end|length"),
        (lambda payload: payload[:-1], "do not end|length"),
        (lambda payload: payload[:4] + b"\x7e" + payload[5:], "shorter than its key"),
        (lambda payload: payload[:3] + b"\x01" + payload[4:], "does not increase"),
    ],
)
def test_damaged_records_are_refused_with_their_batch(damage: object, message: str) -> None:
    header, payload = build_batch([(0, b"k", b"v"), (0, b"l", b"w")], base_offset=77)
    assert callable(damage)
    with pytest.raises(DecodeError, match=message):
        read_columns([header], [damage(payload)])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_written_varints_equal_those_of_the_record_encoder(numbers: list[int]) -> None:
    from tidelog.protocol.record_varint import encode_varint

    rows, is_used = written_varints(np.array(numbers, dtype=np.int64))
    for number, row, used in zip(numbers, rows, is_used, strict=True):
        assert row[used].tobytes() == encode_varint(number)
