"""Batches with a valid header and checksum around any payload."""

from __future__ import annotations

import time
from typing import Any

from tidelog.protocol.batch import BATCH_OVERHEAD, LOG_OVERHEAD, read_header, write_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression, compress


def now_ms() -> int:
    """Return the time in ms since the epoch."""
    return time.time_ns() // 1_000_000


def valid_batch(count: int = 3, compression: Compression = Compression.NONE, **options: Any) -> bytearray:
    """Return a batch of `count` small records."""
    builder = BatchBuilder(compression=compression, **options)
    for number in range(count):
        builder.append(now_ms(), b"key", b"value %d" % number)
    return builder.build()


def batch_with_payload(
    payload: bytes, codec: Compression, record_count: int = 1, later_ms: int = 0
) -> bytearray:
    """Return a batch whose header has `record_count` and whose checksum covers `payload`.

    The header's maximum timestamp is now, plus `later_ms`.
    """
    records = bytearray(BATCH_OVERHEAD) + payload
    header = read_header(valid_batch(1))._replace(
        batch_length=len(records) - LOG_OVERHEAD,
        attributes=int(codec),
        record_count=record_count,
        last_offset_delta=record_count - 1,
        max_timestamp=now_ms() + later_ms,
    )
    write_header(records, 0, header)
    return records


def batch_of_least_records(count: int, codec: Compression = Compression.ZSTD, later_ms: int = 0) -> bytearray:
    """Return a batch of `count` records of the smallest size, which are highly compressible."""
    # attributes, timestamp delta, offset delta, key "", null value, no headers
    payload = b"".join(
        b"%c\0\0%b\0\x01\0" % (2 * (5 + len(delta)), delta) for delta in map(_zigzag, range(count))
    )
    return batch_with_payload(compress(codec, payload), codec, count, later_ms)


def _zigzag(number: int) -> bytes:
    value = number << 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
