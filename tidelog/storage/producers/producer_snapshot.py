"""The bytes of a producer snapshot (`<20-digit offset>.snapshot`): all producers at that offset.

| bytes | field |
|---|---|
| 2 | version, int16, 1 |
| 4 | CRC-32C of all following bytes |
| 4 | number of entries, int32 |
| 46 each | producer id 8, epoch 2, last sequence 4, last offset 8, offset delta 4, timestamp 8, coordinator epoch 4, first offset of the open transaction or -1, 8 |

It contains only the last batch of each producer. Source: ProducerSnapshot.json of Apache Kafka 4.3.
"""  # noqa: E501

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

from crc32c import crc32c

from tidelog.storage.disk.errors import CorruptSnapshot
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry

VERSION: Final = 1

_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_HEADER_SIZE: Final = _PREFIX.size + _COUNT.size


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    """Return the bytes of a snapshot of `entries`, in their order."""
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        first_offset = entry.transaction_first_offset
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if first_offset is None else first_offset,
        )
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> list[ProducerEntry]:
    """Return the entries in `data`; raise CorruptSnapshot, which names `path`, for damaged bytes."""
    if len(data) < _HEADER_SIZE:
        raise CorruptSnapshot(path, f"its {len(data)} bytes are fewer than the header's {_HEADER_SIZE}")
    version, stored_crc = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(path, f"version {version} is unknown, expected {VERSION}")
    computed_crc = crc32c(memoryview(data)[_PREFIX.size :])
    if stored_crc != computed_crc:
        raise CorruptSnapshot(path, f"its CRC is {computed_crc:#010x}, expected {stored_crc:#010x}")
    (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    if count < 0 or _HEADER_SIZE + count * _ENTRY.size != len(data):
        raise CorruptSnapshot(path, f"{count} entries do not fill its {len(data)} bytes")
    return [_entry(values) for values in _ENTRY.iter_unpack(memoryview(data)[_HEADER_SIZE:])]


def _entry(values: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, *rest = values
    coordinator_epoch, transaction_first_offset = rest
    has_batch = last_offset >= 0
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        transaction_first_offset=transaction_first_offset if transaction_first_offset >= 0 else None,
        batches=[BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)] if has_batch else [],
    )
