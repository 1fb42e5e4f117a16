"""Converts Arrow rows to records for a producer, one slice at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tidelog.protocol.record import RecordHeader
from tidelog.spark_connector.planning.sink_columns import SinkColumns

SLICE_ROWS: Final = 1_024
"""The number of rows that are Python objects at the same time."""
_NO_TIMESTAMP_US: Final = -1_000


class RowError(ValueError):
    """A row cannot be a record; the text names the column and the reason."""


class OutgoingRecord(NamedTuple):
    """One record; the producer chooses a partition or timestamp that is None."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Sequence[RecordHeader]
    partition: int | None
    timestamp_ms: int | None


def outgoing_slices(rows: pa.RecordBatch, columns: SinkColumns) -> Iterator[list[OutgoingRecord]]:
    """Yield the records of `rows` in their order, at most `SLICE_ROWS` at a time.

    A timestamp of -1 ms means that a record has none; the producer then sets the current time.
    Errors: RowError for a null topic, a header without a key, a negative partition, or another timestamp
    before 1970.
    """
    for start in range(0, rows.num_rows, SLICE_ROWS):
        part = rows.slice(start, SLICE_ROWS)
        fields = (
            _topics(part, columns),
            _contents(part, columns, "value"),
            _contents(part, columns, "key"),
            _headers(part, columns),
            _partitions(part, columns),
            _timestamps_ms(part, columns),
        )
        yield [OutgoingRecord._make(row) for row in zip(*fields, strict=True)]


def _column(rows: pa.RecordBatch, columns: SinkColumns, name: str, as_type: pa.DataType) -> list[Any]:
    """Return the values of a column; all are None if the column is missing."""
    position = columns.position(name)
    if position is None:
        return [None] * rows.num_rows
    return list(rows.column(position).cast(as_type).to_pylist())


def _contents(rows: pa.RecordBatch, columns: SinkColumns, name: str) -> list[bytes | None]:
    # Strings are UTF-8 in Arrow as in Kafka.
    return _column(rows, columns, name, pa.binary())


def _topics(rows: pa.RecordBatch, columns: SinkColumns) -> list[str]:
    if columns.topic is not None:
        return [columns.topic] * rows.num_rows
    topics: list[str | None] = _column(rows, columns, "topic", pa.string())
    if not all(topics):
        raise RowError("column 'topic' is null or empty in a row: set the option topic, or remove such rows")
    return topics  # type: ignore[return-value]


def _partitions(rows: pa.RecordBatch, columns: SinkColumns) -> list[int | None]:
    partitions: list[int | None] = _column(rows, columns, "partition", pa.int32())
    for partition in partitions:
        if partition is not None and partition < 0:
            raise RowError(f"column 'partition' is {partition} in a row: expected a number from 0, or null")
    return partitions


def _timestamps_ms(rows: pa.RecordBatch, columns: SinkColumns) -> list[int | None]:
    position = columns.position("timestamp")
    if position is None:
        return [None] * rows.num_rows
    micros = rows.column(position).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    times_ms = [None if value is None or value == _NO_TIMESTAMP_US else value // 1_000 for value in micros]
    if any(value is not None and value < 0 for value in times_ms):
        raise RowError("column 'timestamp' is before 1970 in a row: records cannot have such a timestamp")
    return times_ms


def _headers(rows: pa.RecordBatch, columns: SinkColumns) -> list[Sequence[RecordHeader]]:
    position = columns.position("headers")
    if position is None:
        return [()] * rows.num_rows
    return [() if row is None else [_header(one) for one in row] for row in rows.column(position).to_pylist()]


def _header(header: dict[str, Any] | None) -> RecordHeader:
    if header is None or header["key"] is None:
        raise RowError(f"column 'headers' has a header without a key in a row: {header}")
    name, content = header["key"], header["value"]
    return name, content
