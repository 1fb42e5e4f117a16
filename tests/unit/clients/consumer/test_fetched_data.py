from __future__ import annotations

from typing import Any

import pytest

from tidelog.clients.consumer.consumer_types import TimestampType
from tidelog.clients.consumer.fetched_data import FetchedData
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

P0 = TopicPartition("tides", 0)
ABORT = b"\x00\x00\x00\x00"
COMMIT = b"\x00\x00\x00\x01"


def batch(
    base_offset: int, *values: str, producer: int = -1, transactional: bool = False, **options: Any
) -> bytes:
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=4,
        producer=BatchProducer(
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
            is_transactional=transactional,
        ),
        **options,
    )
    for value in values:
        builder.append(1_000, None, value.encode(), ())
    return bytes(builder.build())


def marker(offset: int, producer: int, key: bytes) -> bytes:
    builder = BatchBuilder(
        base_offset=offset,
        leader_epoch=4,
        is_control=True,
        producer=BatchProducer(producer_id=producer, producer_epoch=0, is_transactional=True),
    )
    builder.append(1_000, key, b"\x00\x00\x00\x00\x00\x00", ())
    return bytes(builder.build())


def fetched_data(
    data: bytes, offset: int = 0, *, aborted: list[tuple[int, int]] | None = None, limit: int = 1 << 20
) -> FetchedData:
    return FetchedData(P0, data, offset, 3, aborted=aborted, check_crcs=True, max_decompressed_bytes=limit)


def values(data: FetchedData, at_most: int = 100) -> list[str]:
    result = []
    while not data.is_drained:
        result += [(record.value or b"").decode() for record in data.take(at_most)]
    return result


def test_records_have_their_offset_and_epoch() -> None:
    (record,) = fetched_data(batch(7, "a"), 7).take(10)
    assert record.topic_partition == P0
    assert record == ("tides", 0, 7, 1_000, TimestampType.CREATE_TIME, None, b"a", (), 4)


def test_records_are_taken_in_parts_and_the_position_follows() -> None:
    data = fetched_data(batch(0, "a", "b", "c") + batch(3, "d"))
    assert data.next_offset == 4
    assert [record.offset for record in data.take(2)] == [0, 1]
    assert data.consumed_position == (2, 4)
    assert [record.offset for record in data.take(2)] == [2]
    assert data.consumed_position == (3, 4)
    assert [record.offset for record in data.take(2)] == [3]
    assert data.is_drained
    assert data.consumed_position == (4, 4)


def test_records_before_the_fetch_offset_are_omitted() -> None:
    assert values(fetched_data(batch(0, "a", "b", "c"), 2)) == ["c"]


def test_a_batch_truncated_by_the_size_limit_is_omitted() -> None:
    whole = batch(0, "a")
    data = fetched_data(whole + batch(1, "b")[:-3])
    assert data.next_offset == 1
    assert values(data) == ["a"]


def test_a_response_without_a_complete_batch_is_an_error() -> None:
    with pytest.raises(KafkaError) as caught:
        fetched_data(batch(0, "a" * 500)[:100])
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_wrong_checksum_is_raised_after_the_valid_batches() -> None:
    damaged = bytearray(batch(1, "b"))
    damaged[-2] ^= 1
    data = fetched_data(batch(0, "a") + bytes(damaged))
    assert [record.value for record in data.take(10)] == [b"a"]
    with pytest.raises(KafkaError) as caught:
        data.take(10)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert "tides-0" in str(caught.value)


def test_decompression_is_bounded() -> None:
    compressed = batch(0, "x" * 100_000, compression=Compression.GZIP)
    with pytest.raises(KafkaError) as caught:
        fetched_data(compressed, limit=10_000).take(1)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_log_append_time_is_marked() -> None:
    (record,) = fetched_data(batch(0, "a", log_append_time=9_999)).take(1)
    assert (record.timestamp, record.timestamp_type) == (9_999, TimestampType.LOG_APPEND_TIME)


def test_control_batches_only_advance_the_position() -> None:
    data = fetched_data(batch(0, "a", producer=1, transactional=True) + marker(1, 1, COMMIT))
    assert [record.offset for record in data.take(10)] == [0]
    assert data.is_drained
    assert data.consumed_position == (2, 4)


def test_a_range_of_only_markers_advances_the_position() -> None:
    data = fetched_data(marker(5, 1, COMMIT), 5)
    assert data.take(10) == []
    assert data.consumed_position == (6, 4)


def test_read_uncommitted_returns_aborted_records() -> None:
    stream = batch(0, "a", producer=1, transactional=True) + marker(1, 1, ABORT)
    assert values(fetched_data(stream, aborted=None)) == ["a"]


def test_read_committed_omits_only_aborted_records() -> None:
    stream = (
        batch(0, "committed 1", producer=2, transactional=True)
        + batch(1, "aborted 1", producer=1, transactional=True)
        + batch(2, "plain")
        + batch(3, "aborted 2", producer=1, transactional=True)
        + batch(4, "idempotent", producer=1)
        + marker(5, 1, ABORT)
        + batch(6, "committed 2", producer=1, transactional=True)
        + marker(7, 2, COMMIT)
        + marker(8, 1, COMMIT)
    )
    data = fetched_data(stream, aborted=[(1, 1)])
    assert values(data) == ["committed 1", "plain", "idempotent", "committed 2"]
    assert data.consumed_position == (9, 4)


def test_two_aborted_transactions_of_one_producer_are_omitted() -> None:
    stream = (
        batch(0, "aborted 1", producer=1, transactional=True)
        + marker(1, 1, ABORT)
        + batch(2, "committed", producer=1, transactional=True)
        + marker(3, 1, COMMIT)
        + batch(4, "aborted 2", producer=1, transactional=True)
        + marker(5, 1, ABORT)
    )
    assert values(fetched_data(stream, aborted=[(1, 4), (1, 0)])) == ["committed"]


def test_a_transaction_that_began_before_the_range_is_omitted() -> None:
    stream = batch(10, "aborted", producer=1, transactional=True) + marker(11, 1, ABORT) + batch(12, "kept")
    assert values(fetched_data(stream, 10, aborted=[(1, 2)])) == ["kept"]


def test_a_compacted_batch_without_records_advances_the_position() -> None:
    data = fetched_data(batch(0) + batch(1, "a"))
    assert values(data) == ["a"]
    assert data.consumed_position[0] == 2
