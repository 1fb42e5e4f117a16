"""The Arrow decoder returns the same records, byte by byte, as the plain decoder."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.batches.kafka_batches import golden_batches
from tests.support.spark.arrow_rows import TIDES, decode, plain_rows, rows_of
from tidelog.protocol.batch import read_header, write_header
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.control_batch import end_transaction_batch
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import read_records
from tidelog.spark_connector.arrow.decoder import ArrowDecoder, DecoderSettings
from tidelog.spark_connector.arrow.schema import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS

MILLISECONDS_MAX = (2**63 - 1) // 1000

lengths = st.sampled_from([0, 1, 2, 62, 63, 64, 65, 300, 8190, 8200])
blobs = st.none() | st.binary(max_size=40) | lengths.map(lambda size: b"\x80" * size)
header_lists = st.lists(st.tuples(st.text(max_size=12), blobs), max_size=5)
timestamps = st.one_of(
    st.integers(0, 300),
    st.integers(1_700_000_000_000, 1_700_000_100_000),
    st.integers(-MILLISECONDS_MAX // 2, MILLISECONDS_MAX // 2),
)
records = st.tuples(timestamps, blobs, blobs, header_lists)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of a log: increasing offsets with gaps, every codec, markers in between."""
    log = b""
    offset = draw(st.integers(0, 2**40))
    for contents in draw(st.lists(st.lists(records, max_size=8), min_size=1, max_size=5)):
        builder = BatchBuilder(
            base_offset=offset,
            compression=draw(st.sampled_from(Compression)),
            log_append_time=draw(st.none() | st.integers(0, MILLISECONDS_MAX)),
        )
        for timestamp, key, value, headers in contents:
            builder.append(timestamp, key, value, headers)
        log += bytes(builder.build())
        offset += max(len(contents), 1) + draw(st.integers(0, 3))
    return log


@settings(deadline=None)
@given(logs(), st.integers(1, 9), st.sampled_from([1, 100, 10**6]))
def test_random_logs_are_decoded_as_by_the_reference_decoder(
    log: bytes, max_rows: int, max_bytes: int
) -> None:
    batches = decode(log, max_rows=max_rows, max_bytes=max_bytes)
    assert rows_of(batches) == plain_rows(log)
    assert all(0 < batch.num_rows <= max_rows for batch in batches)


@settings(deadline=None)
@given(logs(), st.data())
def test_a_range_of_offsets_is_cut_within_batches(log: bytes, data: st.DataObject) -> None:
    everything = plain_rows(log)
    first = read_header(log).base_offset
    start = data.draw(st.integers(first, first + 50))
    end = data.draw(st.integers(start, first + 60))
    expected = [row for row in everything if start <= row[0] < end]
    assert rows_of(decode(log, start=start, end=end)) == expected


@settings(deadline=None)
@given(logs(), st.data())
@example(b"", None)
def test_a_log_in_parts_is_decoded_equally(log: bytes, data: st.DataObject | None) -> None:
    """A fetched range may end within a batch; the next one begins with that batch again."""
    decoder = ArrowDecoder(TIDES, 0, 2**62, DecoderSettings(include_headers=True, max_rows=5))
    batches: list[pa.RecordBatch] = []
    at = 0
    while at < len(log):
        assert data is not None
        whole = read_header(log, at).size_bytes
        size = max(whole, data.draw(st.integers(0, len(log) - at)))
        batches += decoder.add(log[at : at + size])
        while at < len(log) and read_header(log, at).last_offset < decoder.next_offset:
            at += read_header(log, at).size_bytes
    assert rows_of([*batches, *decoder.finish()]) == plain_rows(log)


@pytest.mark.parametrize(("name", "batch"), golden_batches())
def test_batches_of_apache_kafka_are_decoded(name: str, batch: bytes) -> None:
    assert rows_of(decode(batch)) == plain_rows(batch), name


def flat_log(
    batches: int, records_each: int, size: int, compression: Compression = Compression.NONE
) -> bytes:
    """Return records of about one size, like those of producers of events."""
    randomness = random.Random(size)
    log = b""
    for number in range(batches):
        builder = BatchBuilder(base_offset=number * records_each, compression=compression)
        for index in range(records_each):
            builder.append(
                1_000_000 + index // 3, b"key", randomness.randbytes(size + index % 2 * (size & 1))
            )
        log += bytes(builder.build())
    return log


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize(
    ("batches", "records_each", "size"),
    [(150, 5, 20), (150, 1, 70), (3, 500, 50), (3, 60, 50), (2, 2000, 101)],
)
def test_every_kind_of_log_and_codec_is_decoded(
    batches: int, records_each: int, size: int, compression: Compression
) -> None:
    log = flat_log(batches, records_each, size, compression)
    assert rows_of(decode(log)) == plain_rows(log)


def test_records_with_many_and_few_headers_are_stored_together() -> None:
    builder = BatchBuilder()
    for number in range(30):
        headers = [(f"h{index}", b"x" * index) for index in range(400 if number == 17 else number % 4)]
        builder.append(number, None, b"v", headers)
    log = bytes(builder.build())
    assert rows_of(decode(log)) == plain_rows(log)


def test_null_and_empty_are_distinct() -> None:
    builder = BatchBuilder()
    builder.append(0, None, None)
    builder.append(0, b"", b"")
    builder.append(0, b"", None, [("", None), ("", b"")])
    (batch,) = decode(bytes(builder.build()))
    assert batch.column("key").to_pylist() == [None, b"", b""]
    assert batch.column("value").to_pylist() == [None, b"", None]
    assert batch.column("headers").to_pylist() == [
        None,
        None,
        [{"key": "", "value": None}, {"key": "", "value": b""}],
    ]


def test_types_equal_sparks_schema() -> None:
    log = flat_log(1, 3, 10)
    (with_headers,) = decode(log)
    (without,) = decode(log, include_headers=False)
    assert with_headers.schema.equals(RECORD_SCHEMA_WITH_HEADERS)
    assert without.schema.equals(RECORD_SCHEMA)
    with_headers.validate(full=True)


def test_arrow_batches_are_bounded_by_bytes_but_hold_any_record() -> None:
    builder = BatchBuilder()
    for size in (10, 10, 5000, 10, 400, 400, 400):
        builder.append(0, None, bytes(size))
    batches = decode(bytes(builder.build()), max_bytes=1000)
    assert [batch.num_rows for batch in batches] == [2, 1, 3, 1]


def test_collected_rows_are_returned_at_the_batch_size() -> None:
    log = flat_log(40, 10, 100)
    decoder = ArrowDecoder(TIDES, 0, 2**62, DecoderSettings(max_rows=100))
    offsets_and_rows = [(decoder.next_offset, batch.num_rows) for batch in decoder.add(log)]
    assert offsets_and_rows == [(100, 100), (200, 100), (300, 100), (400, 100)]
    assert not list(decoder.finish())


def test_a_log_without_visible_records_advances_the_offset() -> None:
    marker = bytes(
        end_transaction_batch(
            committed=True, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=0, base_offset=41
        )
    )
    decoder = ArrowDecoder(TIDES, 0, 100)
    assert not [*decoder.add(marker), *decoder.finish()]
    assert decoder.next_offset == 42


def test_reading_stops_at_the_end_offset_and_reports_it() -> None:
    decoder = ArrowDecoder(TIDES, 0, 15)
    log = flat_log(4, 10, 10)
    rows = sum(batch.num_rows for batch in [*decoder.add(log), *decoder.finish()])
    assert (rows, decoder.is_complete, decoder.next_offset) == (15, True, 20)


# --- transactions ---


def transactional(offset: int, producer_id: int, *values: bytes) -> bytes:
    builder = BatchBuilder(
        base_offset=offset,
        producer=BatchProducer(
            producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        ),
    )
    for value in values:
        builder.append(0, None, value)
    return bytes(builder.build())


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return bytes(
        end_transaction_batch(
            committed=committed,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=0,
            base_offset=offset,
        )
    )


def interleaved_batches() -> bytes:
    """Return batches in which producer 7 aborts, then commits, 8 commits, and 9 uses no transactions."""
    plain = BatchBuilder(
        base_offset=5, producer=BatchProducer(producer_id=9, producer_epoch=0, base_sequence=0)
    )
    plain.append(0, None, b"plain")
    return b"".join(
        (
            transactional(0, 7, b"aborted", b"aborted"),
            transactional(2, 8, b"kept"),
            transactional(3, 7, b"aborted"),
            marker(4, 7, committed=False),
            bytes(plain.build()),
            transactional(6, 7, b"kept"),
            marker(7, 8, committed=True),
            marker(8, 7, committed=True),
        )
    )


def values_of(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_read_committed_omits_only_aborted_records() -> None:
    assert values_of(decode(interleaved_batches(), aborted=[(7, 0)])) == [b"kept", b"plain", b"kept"]


def test_read_uncommitted_returns_every_record_and_no_marker() -> None:
    assert len(values_of(decode(interleaved_batches()))) == 6


def test_a_range_that_starts_in_an_aborted_transaction_omits_the_rest_of_it() -> None:
    log = interleaved_batches()[len(transactional(0, 7, b"aborted", b"aborted")) :]
    assert values_of(decode(log, start=2, aborted=[(7, 0)])) == [b"kept", b"plain", b"kept"]


# --- corruption ---


def with_records(payload: bytes, count: int) -> bytes:
    """Return a batch with these bytes as records, and a valid checksum."""
    builder = BatchBuilder()
    builder.append(0, None, None)
    header = read_header(builder.build())
    batch = bytearray(61) + payload
    changes = {"batch_length": len(batch) - 12, "record_count": count, "last_offset_delta": max(count - 1, 0)}
    write_header(batch, 0, header._replace(**changes))
    return bytes(batch)


def payload_of(count: int = 20, headers: bool = False) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(number, b"key", b"value" * (number % 3), [("h", b"v")] if headers else ())
    return bytes(builder.build())[61:]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_the_decoder_refuses_the_same_damaged_records_as_the_reference(data: st.DataObject) -> None:
    payload = bytearray(payload_of(headers=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    log = with_records(bytes(payload), 20)
    try:
        expected = plain_rows(log)
    except DecodeError:
        with pytest.raises(DecodeError, match="tides-3: "):
            decode(log)
    else:
        if all(abs(row[1]) <= MILLISECONDS_MAX for row in expected):
            assert rows_of(decode(log)) == expected


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=400), st.integers(0, 40))
def test_random_bytes_are_decoded_or_refused(payload: bytes, count: int) -> None:
    one = with_records(payload, count)
    many = b"".join(bytes(_with_base_offset(one, number * 100)) for number in range(120))
    for log in (one, many):
        try:
            expected = plain_rows(log)
        except DecodeError:
            with pytest.raises(DecodeError):
                decode(log)
        else:
            assert rows_of(decode(log)) == expected


def _with_base_offset(batch: bytes, offset: int) -> bytes:
    moved = bytearray(batch)
    moved[:8] = offset.to_bytes(8, "big")
    return bytes(moved)


def test_a_wrong_checksum_is_reported_with_partition_and_offset() -> None:
    log = bytearray(flat_log(3, 5, 20))
    log[-1] ^= 1
    with pytest.raises(DecodeError, match="tides-3: the batch at offset 10 has a wrong checksum"):
        decode(bytes(log))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_an_impossible_record_count_allocates_no_memory(compression: Compression) -> None:
    builder = BatchBuilder(compression=compression)
    builder.append(0, None, b"value")
    batch = builder.build()
    write_header(batch, 0, read_header(batch)._replace(record_count=2**31 - 1))
    with pytest.raises(DecodeError, match="2147483647 records do not fit in"):
        decode(bytes(batch))


def test_batches_in_wrong_order_are_refused() -> None:
    log = flat_log(3, 5, 20)
    third = len(log) // 3
    with pytest.raises(DecodeError, match="begins at offset 5, below 15"):
        decode(log[:third] + log[2 * third :] + transactional(5, 1, *[b""] * 12))


def test_a_timestamp_beyond_sparks_range_is_reported() -> None:
    builder = BatchBuilder(base_offset=70)
    builder.append(MILLISECONDS_MAX + 1, None, b"")
    with pytest.raises(DecodeError, match="offset 70 has a timestamp beyond Spark's range"):
        decode(bytes(builder.build()))


def test_a_batch_that_decompresses_beyond_the_bound_is_refused() -> None:
    builder = BatchBuilder(compression=Compression.ZSTD)
    builder.append(0, None, bytes(1_000_000))
    with pytest.raises(DecodeError, match="expands to more than 1000 bytes"):
        decode(bytes(builder.build()), max_decompressed_bytes=1000)


def test_header_keys_with_invalid_utf_8_get_replacement_characters() -> None:
    """A stream that failed at such a record would fail there permanently."""
    builder = BatchBuilder()
    builder.append(0, None, b"value", [("good", b"1"), ("ab", b"")])
    builder.append(0, None, b"other", [("gr\u00fcn", None)])
    odd = with_records(bytes(builder.build())[61:].replace(b"ab", b"\xff\xfe"), 2)
    (batch,) = decode(odd)
    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [
        [{"key": "good", "value": b"1"}, {"key": "\ufffd\ufffd", "value": b""}],
        [{"key": "gr\u00fcn", "value": None}],
    ]
    assert [key for record in read_records(odd) for key, _ in record.headers] == [
        "good",
        "\ufffd\ufffd",
        "gr\u00fcn",
    ]
