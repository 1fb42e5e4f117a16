"""A source for Spark that reads nothing: ready Arrow batches, again and again, the most the API allows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark_connector.source import RECORD_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "tidelog-generator"


class Generator(DataSource):
    """`rows` records with values of `size` random bytes, in `tasks` tasks."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return RECORD_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(*(int(self.options[name]) for name in ("rows", "size", "tasks")))


class _Reader(DataSourceReader):
    def __init__(self, rows: int, size: int, tasks: int) -> None:
        self._rows = rows // tasks
        self._size = size
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        ready = _batch(self._size)
        left = self._rows
        while left > 0:
            yield ready.slice(0, left)
            left -= ready.num_rows


def _batch(size: int) -> pa.RecordBatch:
    """As large as the source's own: 65,536 rows or 8 MiB."""
    import pyarrow as pa

    from tidelog.spark_connector.arrow.decoder import MAX_BYTES, MAX_ROWS
    from tidelog.spark_connector.arrow.schema import record_schema

    rows = min(MAX_ROWS, MAX_BYTES // size)
    randomness = random.Random(size)
    columns = [
        pa.nulls(rows, pa.binary()),
        pa.array([randomness.randbytes(size) for _ in range(rows)], pa.binary()),
        pa.repeat(pa.scalar("generated", pa.string()), rows),
        pa.repeat(pa.scalar(0, pa.int32()), rows),
        pa.array(range(rows), pa.int64()),
        pa.array(range(rows), pa.int64()).view(pa.timestamp("us", tz="UTC")),
        pa.repeat(pa.scalar(0, pa.int32()), rows),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=record_schema(include_headers=False))
