"""What is written into `__transaction_state` is Kafka's, and is read as it was written."""

from __future__ import annotations

import pytest

from tests.support.transactions.coordinator import ID, A, B
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.records import (
    TransactionRecord,
    decode_record,
    encode_record,
    replay_batches,
)
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import BatchBuilder

WHOLE = TransactionMetadata(
    transactional_id=ID,
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=8,
    producer_epoch=32767,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({A, B}),
    start_wall_ms=1_700_000_000_000,
    last_update_wall_ms=1_700_000_000_500,
    client_transaction_version=2,
)
EMPTY = TransactionMetadata(
    transactional_id=ID, producer_id=7, producer_epoch=0, timeout_ms=60_000, last_update_wall_ms=5
)


@pytest.mark.parametrize("metadata", [WHOLE, EMPTY, None])
def test_a_record_is_read_as_it_was_written(metadata: TransactionMetadata | None) -> None:
    record = TransactionRecord(ID, metadata)
    assert decode_record(*encode_record(record, transaction_version=2)) == record


def test_before_version_1_a_record_has_kafkas_older_form_without_tags() -> None:
    key, value = encode_record(TransactionRecord(ID, EMPTY), transaction_version=0)
    assert key == bytes.fromhex("0000 0005") + b"tides"
    assert value == bytes.fromhex(
        "0000"  # version
        "0000000000000007"  # producer id
        "0000"  # epoch
        "0000ea60"  # timeout
        "00"  # Empty
        "ffffffff"  # no partitions
        "0000000000000005"  # last update
        "ffffffffffffffff"  # no start
    )
    read = decode_record(*encode_record(TransactionRecord(ID, WHOLE), transaction_version=0))
    assert read is not None
    assert read.metadata is not None
    assert (read.metadata.next_producer_id, read.metadata.client_transaction_version) == (-1, 0)
    assert read.metadata.partitions == {A, B}


def test_the_last_epoch_before_is_not_in_the_log() -> None:
    """As in Kafka: who asks again for the epoch that it lost, at another coordinator, is fenced."""
    initialized = EMPTY.prepare_producer_epoch(
        producer_id=7, epoch=1, last_epoch=0, timeout_ms=1, now_wall_ms=1
    )
    read = decode_record(*encode_record(TransactionRecord(ID, initialized), transaction_version=2))
    assert read is not None
    assert read.metadata is not None
    assert read.metadata.last_producer_epoch == -1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", None),
        (None, None),
        (b"\0\0\0\x05tides", b"\0\x07"),
        (b"\0\0\0\x05tides", b"\0\0\0"),
        (b"\0\0\0\x05tid", b"\0\0"),
    ],
)
def test_damaged_records_are_named(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_is_never_written_is_refused(status: int) -> None:
    key, value = encode_record(TransactionRecord(ID, EMPTY), transaction_version=0)
    assert value is not None
    damaged = bytearray(value)
    damaged[16] = status & 0xFF
    with pytest.raises(DecodeError):
        decode_record(key, bytes(damaged))


def test_records_of_another_kind_are_passed_over() -> None:
    assert decode_record(b"\0\x09anything", b"at all") is None


def test_batches_are_replayed_in_order_and_the_last_record_of_an_id_counts() -> None:
    builder = BatchBuilder(base_offset=5)
    for metadata in (EMPTY, WHOLE):
        builder.append(1, *encode_record(TransactionRecord(ID, metadata), 2))
    builder.append(1, *encode_record(TransactionRecord("gone", EMPTY), 2))
    builder.append(1, *encode_record(TransactionRecord("gone", None), 2))
    builder.append(1, b"\0\x09another", b"kind")
    registry = TransactionRegistry()
    assert list(replay_batches(registry, bytes(builder.build()))) == [(5, 10)]
    registry.advance(10)
    assert registry.committed_metadata(ID) == WHOLE
    assert registry.get("gone") is None


def test_a_batch_that_cannot_be_read_is_named_by_its_offset() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(1, b"\0\0\0\x05tides", b"\0\x07")
    with pytest.raises(DecodeError, match="offset 5"):
        list(replay_batches(TransactionRegistry(), bytes(builder.build())))
