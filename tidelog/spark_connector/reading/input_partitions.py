"""The input partitions of Spark's tasks, and how a task reads its partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from tidelog.spark_connector.arrow.worker_memory import freeze_imports
from tidelog.spark_connector.connections.reader_connection import WORKER_CONNECTIONS
from tidelog.spark_connector.planning.ranges import OffsetRange, split_ranges
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.reading.offset_source import OffsetSource
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark_connector.planning.tier_plan import SliceTask
    from tidelog.spark_connector.reading.tier_planner import TierPlanner


class RangePartition(InputPartition):
    """One range of offsets."""

    def __init__(self, offset_range: OffsetRange) -> None:
        super().__init__(offset_range)
        self.offset_range = offset_range


class SlicePartition(InputPartition):
    """Neighbouring slices of remote segments of one partition."""

    def __init__(self, task: SliceTask) -> None:
        super().__init__(task)
        self.task = task


class TaskPlanner:
    """Plans the tasks of one query; a stream uses one planner for all batches, as long as `source`."""

    def __init__(self, options: SourceOptions, source: OffsetSource) -> None:
        self._options = options
        self._source = source
        self._tier: TierPlanner | None = None

    def input_partitions(self, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
        """Return the tasks that read `ranges`; with tier=direct or offline, remote parts as slices."""
        tasks: list[SliceTask] = []
        remaining: Sequence[OffsetRange] = ranges
        if self._options.tier.reads_segments:
            tasks, remaining = self._tier_planner().plan(ranges)
        min_partitions = self._options.min_partitions
        broker_ranges = split_ranges(
            remaining,
            min_partitions=None if min_partitions is None else max(min_partitions - len(tasks), 1),
            max_records_per_partition=self._options.max_records_per_partition,
        )
        return [*map(SlicePartition, tasks), *map(RangePartition, broker_ranges)]

    def _tier_planner(self) -> TierPlanner:
        if self._tier is None:
            # This imports the libraries of object stores.
            from tidelog.spark_connector.reading.tier_planner import TierPlanner

            self._tier = TierPlanner(self._options, self._source)
        return self._tier


def input_partitions(
    options: SourceOptions, source: OffsetSource, ranges: Sequence[OffsetRange]
) -> list[InputPartition]:
    """Return the tasks of a query that is planned once."""
    return TaskPlanner(options, source).input_partitions(ranges)


def read_partition(options: SourceOptions, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task. For no partitions, PySpark runs one task, which reads nothing."""
    if isinstance(partition, RangePartition):
        freeze_imports()
        settings = ReadSettings.of(options)
        with WORKER_CONNECTIONS.connection(settings.client, settings.poll_timeout_ms) as connection:
            yield from read_range(settings, partition.offset_range, connection)
    elif isinstance(partition, SlicePartition):
        from tidelog.spark_connector.reading.tier_reader import read_slices

        freeze_imports()
        yield from read_slices(options, partition.task)
