"""Batches that are rebuilt with some of their records, compared with the records one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs.compaction import keyed_batch
from tidelog.protocol.batch import BATCH_OVERHEAD, crc_is_valid, read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.record import read_payload, read_records
from tidelog.protocol.record_columns.header_columns import numbers_of, read_headers
from tidelog.protocol.record_columns.key_columns import Payloads, read_key_columns
from tidelog.storage.compaction.batch_filter import delete_horizon_ms
from tidelog.storage.compaction.rebuilding import Rebuilding

RECORD = st.tuples(
    st.integers(-5_000, 2**40),
    st.binary(max_size=60),
    st.one_of(st.none(), st.binary(max_size=200), st.just(b"v" * 9_000)),
    st.booleans(),
)
BATCH = st.tuples(st.lists(RECORD, min_size=1, max_size=40), st.booleans(), st.sampled_from(Compression))


def rebuild(
    batches: list[bytearray], survives: list[bool], needs_horizon: list[bool], horizon_ms: int
) -> Rebuilding:
    payloads = [read_payload(batch, 0, read_header(batch), 1 << 28) for batch in batches]
    sizes = np.array([len(batch) for batch in batches], dtype=np.int64)
    headers = read_headers(b"".join(batches), np.cumsum(sizes) - sizes)
    columns = read_key_columns(
        Payloads.joined(payloads, numbers_of(headers, "record_count"), numbers_of(headers, "base_offset"))
    )
    mask = np.array(survives)
    counts = np.add.reduceat(mask, columns.first_rows, dtype=np.int64)
    return Rebuilding(headers, columns, mask, counts, np.array(needs_horizon), horizon_ms)


@given(st.lists(BATCH, min_size=1, max_size=4), st.integers(0, 2**41))
def test_the_surviving_records_are_unchanged(
    batches: list[tuple[list[tuple[int, bytes, bytes | None, bool]], bool, Compression]], horizon_ms: int
) -> None:
    built, survives = [], list[bool]()
    for index, (records, _, codec) in enumerate(batches):
        builder = BatchBuilder(compression=codec, base_offset=100 * index)
        for timestamp, key, value, is_kept in records:
            builder.append(timestamp, key, value, [("h", b"x")] if timestamp % 2 else [])
            survives.append(is_kept)
        built.append(builder.build())
    needs_horizon = [marks for _, marks, _ in batches]
    rebuilding = rebuild(built, survives, needs_horizon, horizon_ms)
    kept = iter(survives)
    for index, batch in enumerate(built):
        expected = [record for record in read_records(batch) if next(kept)]
        if not expected:
            continue
        header, data = rebuilding.batch(index)
        assert read_header(data) == header._replace(crc=read_header(data).crc)
        assert crc_is_valid(data, 0, read_header(data))
        assert read_records(data) == expected
        assert delete_horizon_ms(header) == (horizon_ms if needs_horizon[index] else None)
        assert header.compression is batches[index][2]
        if len(expected) < len(batches[index][0]):
            newest = max(-1, *(record.timestamp for record in expected))
            assert header.max_timestamp == min(read_header(batch).max_timestamp, newest)


def test_a_batch_with_log_append_time_keeps_its_timestamp() -> None:
    batch = keyed_batch([("a", "1"), ("b", "2")], log_append_time=77)
    header, data = rebuild([batch], [True, False], [False], 0).batch(0)
    assert header.max_timestamp == 77 and header.record_count == 1
    assert [record.timestamp for record in read_records(data)] == [77]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_adjacent_records_are_copied_as_one_run(count: int) -> None:
    batch = keyed_batch([(f"{number}", "x") for number in range(10)])
    survives = [number < count for number in range(10)]
    _, data = rebuild([batch], survives, [False], 0).batch(0)
    size = len(data) - BATCH_OVERHEAD
    assert data[BATCH_OVERHEAD:] == batch[BATCH_OVERHEAD : BATCH_OVERHEAD + size]
