"""Records of `__transaction_state` equal Kafka's and round trip."""

from __future__ import annotations

import pytest

from tests.support.transactions.coordinator import ID, A, B
from tests.support.transactions.metadata_examples import EMPTY, WHOLE
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.records import TransactionRecord, decode_record, encode_record
from tidelog.protocol.errors import DecodeError


@pytest.mark.parametrize("metadata", [WHOLE, EMPTY, None])
def test_records_round_trip(metadata: TransactionMetadata | None) -> None:
    record = TransactionRecord(ID, metadata)
    assert decode_record(*encode_record(record, transaction_version=2)) == record


def test_before_version_1_records_have_no_tagged_fields() -> None:
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


def test_the_previous_producer_epoch_is_not_in_the_log() -> None:
    """As in Kafka, a producer that retries its request at another coordinator is fenced."""
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
def test_corrupt_records_are_reported(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_an_invalid_state_is_refused(status: int) -> None:
    key, value = encode_record(TransactionRecord(ID, EMPTY), transaction_version=0)
    assert value is not None
    damaged = bytearray(value)
    damaged[16] = status & 0xFF
    with pytest.raises(DecodeError):
        decode_record(key, bytes(damaged))


def test_records_of_another_type_are_skipped() -> None:
    assert decode_record(b"\0\x09anything", b"at all") is None
