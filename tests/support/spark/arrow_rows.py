"""The rows expected by the reference decoder, and Arrow batches as rows for comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.record import read_records
from tidelog.spark_connector.arrow.decoder import ArrowDecoder, DecoderSettings

TIDES = TopicPartition("tides", 3)

Row = tuple[Any, ...]


def plain_rows(log: bytes) -> list[Row]:
    """Return offset, timestamp in ms, its type, key, value and headers of every data record."""
    return [
        (
            one.offset,
            one.timestamp,
            int(header.is_log_append_time),
            one.key,
            one.value,
            list(one.headers) or None,
        )
        for position, header in iterate_headers(log)
        if not header.is_control
        for one in read_records(log, position, header)
    ]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Return the same fields of Arrow batches with headers."""
    rows: list[Row] = []
    for batch in batches:
        assert batch.column("topic").to_pylist() == [TIDES.topic] * batch.num_rows
        assert batch.column("partition").to_pylist() == [TIDES.partition] * batch.num_rows
        micros = batch.column("timestamp").view(pa.int64()).to_pylist()
        assert all(value % 1000 == 0 for value in micros)
        headers = [
            None if of_record is None else [(one["key"], one["value"]) for one in of_record]
            for of_record in batch.column("headers").to_pylist()
        ]
        rows += zip(
            batch.column("offset").to_pylist(),
            [value // 1000 for value in micros],
            batch.column("timestampType").to_pylist(),
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            headers,
            strict=True,
        )
    return rows


def decode(
    log: bytes,
    *,
    start: int = 0,
    end: int = 2**62,
    aborted: Iterable[tuple[int, int]] | None = None,
    **settings: Any,
) -> list[pa.RecordBatch]:
    """Return all Arrow batches of `log`, with headers by default."""
    decoder = ArrowDecoder(TIDES, start, end, DecoderSettings(**{"include_headers": True, **settings}))
    return [*decoder.add(log, aborted), *decoder.finish()]
