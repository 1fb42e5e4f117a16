"""What one task of Spark reads, and the reading of it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from spark_connector.planning.ranges import OffsetRange
from spark_connector.reading.range_reader import ReadSettings, read_range

if TYPE_CHECKING:
    import pyarrow as pa

_FREEZES: Final = 3
_freezes_left = _FREEZES


class RangePartition(InputPartition):
    """One range of offsets."""

    def __init__(self, offset_range: OffsetRange) -> None:
        super().__init__(offset_range)
        self.offset_range = offset_range


def range_partitions(ranges: Iterable[OffsetRange]) -> list[InputPartition]:
    """A task for each range."""
    return [RangePartition(one) for one in ranges]


def read_partition(settings: ReadSettings, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """The records of a task; PySpark makes one task of no partitions, which reads nothing."""
    if not isinstance(partition, RangePartition):
        return
    _freeze_imports()
    yield from read_range(settings, partition.offset_range)


def _freeze_imports() -> None:
    """Spare the worker the search through pyarrow's objects that PySpark asks for after every task.

    Three times, as imports go on happening during the first tasks of a process: from about 30 ms to 10.
    """
    global _freezes_left  # noqa: PLW0603 - a worker process is the scope
    if _freezes_left:
        _freezes_left -= 1
        gc.freeze()
