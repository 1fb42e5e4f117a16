"""Record batches written by Apache Kafka, and their records."""

from __future__ import annotations

import json

from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.record import Record, RecordHeader

_PATH = GOLDEN_FILES / "protocol" / "kafka_batches.jsonl"
_START_MS = 1_700_000_000_000


def golden_batches() -> list[tuple[str, bytes]]:
    """Return name and bytes of every batch."""
    lines = [json.loads(line) for line in _PATH.read_text().splitlines()]
    return [(line["batch"], bytes.fromhex(line["bytes"])) for line in lines]


def golden_batch(name: str) -> bytes:
    """Return the bytes of the first batch with that name."""
    return next(data for batch_name, data in golden_batches() if batch_name == name)


def small_records(base_offset: int) -> list[Record]:
    """Return twelve records with null, empty and filled keys, values and headers, and various timestamps."""
    headers: tuple[RecordHeader, ...] = (("h", b"x"), ("grün", None), ("", b""))
    records = []
    for index in range(12):
        value = {1: None, 2: b""}.get(index % 4, f"value-{index} ".encode() * index)
        records.append(
            Record(
                base_offset + index,
                _START_MS + index * 17 - (index % 3) * 40,
                None if index % 3 == 0 else f"key-{index}".encode(),
                value,
                headers if index % 5 == 0 else (),
            )
        )
    return records


def large_records() -> list[Record]:
    """Return 120 records of about 1.6 KB: more than one block of every codec."""
    return [
        Record(index, _START_MS + index, f"k{index}".encode(), f"tide {index} ".encode() * 200, ())
        for index in range(120)
    ]


def append_all(builder: BatchBuilder, records: list[Record]) -> BatchBuilder:
    """Append `records` to `builder` and return it."""
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder
