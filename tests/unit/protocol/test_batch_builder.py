"""Batch builder: round trips, and the bytes that Kafka writes for the same records."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.kafka_batches import (
    append_all,
    golden_batch,
    small_records,
)
from tidelog.protocol.batch import BATCH_OVERHEAD, crc_is_valid, read_header
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.record import Record, RecordHeader, read_records

header_lists = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
contents = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.none() | st.binary(max_size=80),
        st.none() | st.binary(max_size=80),
        header_lists,
    ),
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(records=contents, codec=st.sampled_from(Compression), base_offset=st.integers(0, 2**62))
def test_built_batches_are_read_back(
    records: list[tuple[int, bytes | None, bytes | None, list[RecordHeader]]],
    codec: Compression,
    base_offset: int,
) -> None:
    builder = BatchBuilder(compression=codec, base_offset=base_offset, leader_epoch=4)
    for record in records:
        builder.append(*record)
    batch = builder.build()
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert (header.size_bytes, header.record_count) == (len(batch), len(records))
    if records:
        times = [timestamp for timestamp, _, _, _ in records]
        assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))
        assert header.last_offset == base_offset + len(records) - 1
    if codec is Compression.NONE:
        assert builder.estimated_size_bytes == len(batch)
    assert read_records(batch) == [
        Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]


def test_uncompressed_batches_equal_kafkas_bytes() -> None:
    builder = append_all(BatchBuilder(base_offset=1000, leader_epoch=7), small_records(0))
    assert builder.build() == golden_batch("small none")
    transactional = BatchBuilder(
        producer=BatchProducer(
            producer_id=4_000_000_000, producer_epoch=12, base_sequence=2_147_483_640, is_transactional=True
        )
    )
    assert append_all(transactional, small_records(0)).build() == golden_batch("transactional")


def test_log_append_time_applies_to_every_record() -> None:
    data = golden_batch("log append time")
    assert {record.timestamp for record in read_records(data)} == {1_700_000_009_999}
    builder = BatchBuilder(base_offset=5, leader_epoch=3, log_append_time=1_700_000_009_999)
    # Kafka writes the first record's own timestamp as base timestamp; readers ignore it in this case.
    assert append_all(builder, small_records(0)).build() == data


def test_a_builder_can_be_built_repeatedly() -> None:
    builder = append_all(BatchBuilder(), small_records(0)[:5])
    first = builder.build()
    append_all(builder, small_records(0)[5:])
    assert read_records(first) == small_records(0)[:5]
    assert read_records(builder.build()) == small_records(0)


def test_a_record_that_cannot_be_encoded_leaves_the_batch_unchanged() -> None:
    builder = BatchBuilder()
    bad = ((9_000, "text"), (9_000.5, b"low"))
    for timestamp, value in (*bad, (5_000, b"high"), *bad):
        with suppress(TypeError):
            builder.append(timestamp, None, value)  # type: ignore[arg-type]
    header = read_header(builder.build())
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (5_000, 5_000, 1)


@given(
    values=st.lists(st.binary(max_size=20), max_size=5),
    repeated=st.sampled_from([0, 1, 2_047, 2_050, 8_200]),
    timestamps=st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
)
@settings(max_examples=40)
def test_values_that_are_appended_at_once_make_the_same_batch(
    values: list[bytes], repeated: int, timestamps: tuple[int, int]
) -> None:
    one_by_one, at_once = BatchBuilder(base_offset=5), BatchBuilder(base_offset=5)
    for timestamp in timestamps:
        batch = [*values, *[b"v"] * repeated, bytes(3_000)]
        at_once.append_values(timestamp, batch)
        for value in batch:
            one_by_one.append(timestamp, None, value)
    at_once.append_values(1, ())
    assert at_once.build() == one_by_one.build()
    assert at_once.estimated_size_bytes == one_by_one.estimated_size_bytes


def test_a_builder_without_records_builds_an_empty_batch() -> None:
    for codec in Compression:
        batch = BatchBuilder(compression=codec, base_offset=9).build()
        assert len(batch) == BATCH_OVERHEAD
        assert read_records(batch) == []


@pytest.mark.parametrize("difference", [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**31), 2**62, -(2**62)])
def test_timestamps_may_decrease(difference: int) -> None:
    builder = BatchBuilder()
    builder.append(2**61, None, None)
    builder.append(2**61 + difference, None, None)
    assert [record.timestamp for record in read_records(builder.build())] == [2**61, 2**61 + difference]
