"""Validation of produced batches by the leader, with Apache Kafka's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import batch, end_marker
from tidelog.protocol.batch import crc_is_valid, read_header, write_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.record import read_records
from tidelog.protocol.steps import run_steps
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.disk.errors import InvalidRecords
from tidelog.storage.log.record_validation import RECORD_ERRORS_MAX
from tidelog.storage.log.validation import read_single_batch, validation
from tidelog.storage.log.validation_rules import ValidatedBatch, ValidationRules

HOUR_MS = 3_600_000


def validate(
    data: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, now_ms: int = NOW_MS, **settings: Any
) -> ValidatedBatch:
    rules = ValidationRules.of(log_config(**settings))
    header = read_single_batch(data)
    steps = validation(data, header, rules, origin, now_ms)
    return ValidatedBatch(data, header) if steps is None else run_steps(steps)


def error_of(data: bytearray, **options: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate(data, **options)
    return caught.value.code


def change_header(data: bytearray, **fields: int) -> bytearray:
    """Return the batch with changed header fields and a valid checksum."""
    write_header(data, 0, read_header(data)._replace(**fields))
    return data


def test_a_valid_batch_is_accepted_unchanged() -> None:
    data = batch(["a", "b"])
    before = bytes(data)
    records, header = validate(data)
    assert records is data
    assert bytes(records) == before
    assert header == read_header(before)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 16, 17, 60])
def test_fewer_bytes_than_a_header_are_refused(length: int) -> None:
    assert error_of(batch(["a"])[:length]) is ErrorCode.INVALID_RECORD


def test_a_truncated_batch_is_refused() -> None:
    assert error_of(batch(["a"])[:-1]) is ErrorCode.INVALID_RECORD


def test_a_second_batch_is_refused() -> None:
    assert error_of(batch(["a"]) + batch(["b"])) is ErrorCode.INVALID_RECORD


def test_trailing_bytes_after_the_batch_are_tolerated() -> None:
    data = batch(["a"])
    assert validate(data + batch(["b"])[:-1]).header.record_count == 1
    assert validate(data + b"\0" * 8).header.record_count == 1


@pytest.mark.parametrize(
    ("magic", "code"), [(0, "INVALID_RECORD"), (1, "INVALID_RECORD"), (3, "CORRUPT_MESSAGE")]
)
def test_other_magic_values_are_refused(magic: int, code: str) -> None:
    data = batch(["a"])
    data[16] = magic
    assert error_of(data).name == code


def test_an_invalid_length_is_corrupt_message() -> None:
    data = batch(["a"])
    data[8:12] = (20).to_bytes(4, "big")
    assert error_of(data) is ErrorCode.CORRUPT_MESSAGE
    data[8:12] = b"\xff\xff\xff\xff"
    assert error_of(data) is ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_checksum_is_corrupt_message() -> None:
    data = batch(["a"])
    data[-1] ^= 1
    assert error_of(data) is ErrorCode.CORRUPT_MESSAGE


def test_a_nonzero_base_offset_of_a_client_is_refused() -> None:
    data = batch(["a"], base_offset=5)
    assert error_of(data) is ErrorCode.INVALID_RECORD
    assert validate(data, AppendOrigin.COORDINATOR).header.base_offset == 5


def test_max_message_bytes_is_inclusive() -> None:
    data = batch(["a"])
    assert error_of(bytearray(data), max_message_bytes=len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(data, max_message_bytes=len(data)).records is data


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 3},
        {"record_count": 1},
        {"last_offset_delta": 7},
        {"record_count": 0, "last_offset_delta": 0},
        {"record_count": -1},
        {"last_offset_delta": -1},
    ],
)
def test_inconsistent_record_counts_are_refused(fields: dict[str, int]) -> None:
    data = batch(["a", "b"])
    header = read_header(data)._replace(**fields)
    write_header(data, 0, header)
    assert error_of(data) is ErrorCode.INVALID_RECORD


def test_control_batches_of_clients_are_refused() -> None:
    assert error_of(end_marker(1)) is ErrorCode.INVALID_RECORD
    assert validate(end_marker(1), AppendOrigin.COORDINATOR).header.is_control


def test_a_producer_id_needs_a_sequence() -> None:
    assert error_of(batch(["a"], producer_id=1, producer_epoch=0)) is ErrorCode.INVALID_RECORD


def test_an_unknown_compression_is_refused() -> None:
    assert error_of(change_header(batch(["a"]), attributes=6)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("policy", [("compact",), ("compact", "delete")])
@pytest.mark.parametrize("codec", list(Compression))
def test_a_compacted_topic_needs_keys(policy: tuple[str, ...], codec: Compression) -> None:
    data = batch(["a"], key=None, compression=codec)
    assert error_of(data, cleanup_policy=policy) is ErrorCode.INVALID_RECORD
    assert validate(batch(["a"], compression=codec), cleanup_policy=policy).header.record_count == 1


def keyed_batch(keys: Sequence[bytes | None], timestamps: Sequence[int]) -> bytearray:
    builder = BatchBuilder()
    for key, timestamp in zip(keys, timestamps, strict=True):
        builder.append(timestamp, key, b"x")
    return bytearray(builder.build())


def expect_rejection(data: bytearray, **settings: Any) -> tuple[ErrorCode, list[int]]:
    with pytest.raises(InvalidRecords) as caught:
        validate(data, **settings)
    return caught.value.code, [index for index, _ in caught.value.record_errors]


def test_refused_records_are_reported_by_batch_index() -> None:
    times = [NOW_MS, NOW_MS, NOW_MS - 101, NOW_MS + HOUR_MS + 1]
    data = keyed_batch((b"k", None, b"k", b"k"), times)
    compact = {"cleanup_policy": ("compact",)}
    assert expect_rejection(bytearray(data)) == (ErrorCode.INVALID_TIMESTAMP, [3]), (
        "the header alone shows an invalid timestamp"
    )
    assert expect_rejection(bytearray(data), **compact) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])
    aged = compact | {"message_timestamp_before_max_ms": 100}
    assert expect_rejection(bytearray(data), **aged) == (ErrorCode.INVALID_TIMESTAMP, [1, 2, 3])
    in_time = keyed_batch((b"k", None, b"k", None), [NOW_MS] * 4)
    assert expect_rejection(in_time, **compact) == (ErrorCode.INVALID_RECORD, [1, 3])


def test_the_number_of_reported_records_is_bounded() -> None:
    data = batch(["x"] * (RECORD_ERRORS_MAX + 5), key=None)
    _, indexes = expect_rejection(data, cleanup_policy=("compact",))
    assert indexes == list(range(RECORD_ERRORS_MAX))


def test_an_invalid_timestamp_in_only_the_header_is_refused() -> None:
    data = change_header(batch(["a"], timestamps=NOW_MS), max_timestamp=NOW_MS + HOUR_MS + 1)
    assert error_of(data) is ErrorCode.INVALID_TIMESTAMP
    unreadable = batch(["a"], timestamps=NOW_MS + HOUR_MS + 1)
    unreadable[61] = 0x7F
    write_header(unreadable, 0, read_header(unreadable))
    assert error_of(unreadable) is ErrorCode.INVALID_TIMESTAMP


def test_unparsable_records_are_refused_where_they_are_parsed() -> None:
    data = batch(["a"])
    data[61] = 0x7F  # the record's length
    write_header(data, 0, read_header(data))
    assert error_of(data, cleanup_policy=("compact",)) is ErrorCode.INVALID_RECORD


class TestTimestamps:
    """message.timestamp.type, .before.max.ms and .after.max.ms."""

    def test_the_default_of_message_timestamp_after_max_ms_is_one_hour(self) -> None:
        assert validate(batch(["a"], timestamps=NOW_MS + HOUR_MS)).header.record_count == 1
        assert error_of(batch(["a"], timestamps=NOW_MS + HOUR_MS + 1)) is ErrorCode.INVALID_TIMESTAMP

    def test_any_past_timestamp_is_allowed_by_default(self) -> None:
        assert validate(batch(["a"], timestamps=0)).header.record_count == 1

    def test_a_record_beyond_message_timestamp_before_max_ms_is_refused_at_any_position(self) -> None:
        old = NOW_MS - 101
        for timestamps in ([old, NOW_MS], [NOW_MS, old], [NOW_MS, old, NOW_MS]):
            data = batch(["x"] * len(timestamps), timestamps=timestamps)
            assert error_of(data, message_timestamp_before_max_ms=100) is ErrorCode.INVALID_TIMESTAMP
        assert validate(batch(["x"], timestamps=old + 1), message_timestamp_before_max_ms=100)

    def test_a_record_without_timestamp_is_always_allowed(self) -> None:
        assert validate(batch(["a"], timestamps=-1), message_timestamp_before_max_ms=0)

    def test_a_wrong_maximum_timestamp_is_corrected_where_records_are_parsed(self) -> None:
        data = change_header(batch(["a"], timestamps=NOW_MS), max_timestamp=NOW_MS + 50)
        records, header = validate(data, message_timestamp_before_max_ms=100)
        assert header.max_timestamp == NOW_MS
        assert crc_is_valid(records, 0, read_header(records))

    def test_log_append_time_overwrites_the_producers_timestamps(self) -> None:
        data = batch(["a", "b"], timestamps=[5, 6])
        records, header = validate(data, message_timestamp_type="LogAppendTime", now_ms=NOW_MS + 7)
        assert header.max_timestamp == NOW_MS + 7
        assert header.is_log_append_time
        assert crc_is_valid(records, 0, header)
        assert {record.timestamp for record in read_records(records)} == {NOW_MS + 7}

    def test_log_append_time_ignores_the_limits(self) -> None:
        data = batch(["a"], timestamps=NOW_MS + 2 * HOUR_MS)
        assert validate(data, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=0)

    def test_the_log_append_time_attribute_of_a_producer_is_refused(self) -> None:
        data = change_header(batch(["a"]), attributes=0x08)
        assert error_of(data, message_timestamp_type="LogAppendTime") is ErrorCode.INVALID_TIMESTAMP
        without = change_header(batch(["a"], timestamps=-1), attributes=0x08)
        assert error_of(without) is ErrorCode.INVALID_TIMESTAMP

    def test_the_log_append_time_attribute_is_cleared_on_a_create_time_topic(self) -> None:
        records, header = validate(change_header(batch(["a"]), attributes=0x08))
        assert not header.is_log_append_time
        assert crc_is_valid(records, 0, read_header(records))


class TestStoredCompression:
    """compression.type other than producer."""

    @pytest.mark.parametrize("source", list(Compression))
    @pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_batches_are_stored_with_the_topics_compression_type(
        self, source: Compression, target: str
    ) -> None:
        data = batch(["a", "b"], compression=source, timestamps=[NOW_MS, NOW_MS - 5], producer_id=3,
                     producer_epoch=1, base_sequence=9, is_transactional=True)  # fmt: skip
        before = read_records(data)
        records, header = validate(data, compression_type=target)
        assert header.compression.name == ("NONE" if target == "uncompressed" else target.upper())
        assert read_records(records) == before
        assert crc_is_valid(records, 0, header)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 9)
        assert header.is_transactional
        assert header.max_timestamp == NOW_MS
        same_codec = header.compression is source
        assert (records is data) == same_codec

    def test_max_message_bytes_applies_to_the_stored_batch(self) -> None:
        data = batch(["a" * 5_000], compression=Compression.GZIP)
        options = {"compression_type": "uncompressed", "max_message_bytes": 1_000}
        assert error_of(data, **options) is ErrorCode.MESSAGE_TOO_LARGE

    def test_log_append_time_and_recompression_are_combined(self) -> None:
        data = batch(["a"], compression=Compression.GZIP)
        records, header = validate(data, compression_type="zstd", message_timestamp_type="LogAppendTime")
        assert header.is_log_append_time
        assert read_records(records)[0].timestamp == NOW_MS

    def test_control_batches_are_not_compressed(self) -> None:
        marker = end_marker(1)
        records, header = validate(marker, AppendOrigin.COORDINATOR, compression_type="zstd")
        assert records is marker
        assert header.compression is Compression.NONE


@settings(max_examples=300, deadline=None)
@given(
    position=st.integers(0, 80),
    piece=st.binary(min_size=1, max_size=8),
    fix_checksum=st.booleans(),
    compacted=st.booleans(),
)
def test_random_batches_are_accepted_or_refused_with_an_error_code(
    position: int, piece: bytes, fix_checksum: bool, compacted: bool
) -> None:
    data = batch(["a", "b"], compression=Compression.ZSTD)
    position = min(position, len(data) - len(piece))
    data[position : position + len(piece)] = piece
    if fix_checksum:
        try:
            write_header(data, 0, read_header(data))
        except (ValueError, IndexError):
            return
    policy = ("compact",) if compacted else ("delete",)
    try:
        validate(data, cleanup_policy=policy)
    except KafkaError as error:
        assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
