"""Transaction markers are read from control batches; other records are refused."""

from __future__ import annotations

import pytest

from tidelog.protocol.batch import read_header
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.transaction_marker import EndTransactionMarker, read_end_transaction_marker


def control_batch(*records: tuple[bytes | None, bytes | None]) -> bytes:
    builder = BatchBuilder(
        is_control=True, producer=BatchProducer(producer_id=7, producer_epoch=2, is_transactional=True)
    )
    for key, value in records:
        builder.append(1234, key, value)
    return bytes(builder.build())


@pytest.mark.parametrize(("kind", "is_abort"), [(0, True), (1, False)])
def test_abort_and_commit_are_distinguished(kind: int, is_abort: bool) -> None:
    batch = control_batch((b"\0\0" + kind.to_bytes(2, "big"), bytes.fromhex("000000000005")))
    marker = read_end_transaction_marker(batch, 0, read_header(batch))
    assert marker == EndTransactionMarker(is_abort, coordinator_epoch=5, timestamp=1234)


def test_a_marker_of_a_newer_version_is_read_by_its_known_fields() -> None:
    batch = control_batch((b"\0\x01\0\x01more", bytes.fromhex("000100000009ffff")))
    marker = read_end_transaction_marker(b"before" + batch, 6, read_header(batch))
    assert marker == EndTransactionMarker(False, coordinator_epoch=9, timestamp=1234)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", None),
        (b"\0\0\0", b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\2", b"\0\0\0\0\0\1"),
        (b"\0\0\xff\xff", b"\0\0\0\0\0\1"),
    ],
)
def test_a_record_without_a_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    batch = control_batch((key, value))
    with pytest.raises(DecodeError, match="offset 0"):
        read_end_transaction_marker(batch, 0, read_header(batch))
