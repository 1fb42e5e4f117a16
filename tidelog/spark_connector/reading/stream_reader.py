"""The reader of `spark.readStream.format("tidelog")`: plans with `StreamProgress` and brokers (shell).

Spark creates two objects of this class: one exists on the driver as long as the query, the other is only
pickled for its `read`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.base.clock import SystemClock
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.data_loss import DataLossError, PlannedBatch, plan_batch
from tidelog.spark_connector.planning.offsets_json import Offsets, from_json_object, to_json_object
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.stream_progress import StreamProgress
from tidelog.spark_connector.planning.tier_options import TierMode
from tidelog.spark_connector.reading.input_partitions import TaskPlanner, read_partition
from tidelog.spark_connector.reading.offset_source import OffsetSource, offset_source

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("tidelog.spark")


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans offsets and ranges on the driver, and reads records on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._progress = StreamProgress(options)
        self._source: OffsetSource | None = None
        self._planner: TaskPlanner | None = None
        self._reported: Offsets | None = None
        self._planned_end: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors get only what `read` needs; connections stay on the driver.
        return {"_options": self._options}

    def initialOffset(self) -> dict[str, dict[str, int]]:
        if self._progress.initial is None:
            source = self._offset_source()
            partitions = source.partitions(all_must_exist=True)
            self._progress.begin(source.resolve(self._options.starting, partitions, is_start=True))
        assert self._progress.initial is not None
        return to_json_object(self._progress.initial)

    def prepareForTriggerAvailableNow(self) -> None:
        source = self._offset_source()
        self._progress.pin(source.latest(source.partitions(all_must_exist=False), {}))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:
        start_offsets = from_json_object(start)
        ends = self._ends(start_offsets)
        if self._progress.is_anchor(start_offsets):
            self._planned_end = start_offsets
            return to_json_object(start_offsets)
        new_partitions = ends.keys() - start_offsets.keys()
        new_starts = (
            self._offset_source().earliest(new_partitions)
            if new_partitions and not isinstance(limit, ReadAllAvailable)
            else {}
        )
        end = self._progress.next_end(
            start_offsets,
            ends,
            new_starts,
            max_offsets=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            min_offsets=limit.min_rows if isinstance(limit, ReadMinRows) else None,
            now_ms=SystemClock().monotonic_ms(),
        )
        # Check before Spark records the end: otherwise the checkpoint would always fail, even after a repair.
        self._plan(
            start_offsets,
            {topic_partition: end[topic_partition] for topic_partition in end.keys() & start_offsets.keys()},
            {},
        )
        self._planned_end = end
        return to_json_object(end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        return None if self._reported is None else to_json_object(self._reported)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ends = from_json_object(end)
        starts = self._progress.batch_start(from_json_object(start), ends)
        new_partitions = ends.keys() - starts.keys()
        planned = self._plan(
            starts,
            ends,
            self._offset_source().earliest(new_partitions) if new_partitions else {},
            self._deleted_partitions(ends),
        )
        for loss in planned.losses:
            _log.warning("%s: skipped", loss)
        if self._planner is None:
            self._planner = TaskPlanner(self._options, self._offset_source())
        return self._planner.input_partitions(planned.ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: offsets are in Spark's checkpoint, and never committed to a group."""

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = self._planner = None

    def _deleted_partitions(self, ends: Offsets) -> Collection[TopicPartition]:
        """Return the partitions that were deleted after an earlier run of the query planned the ends."""
        return () if ends == self._planned_end else ends.keys() - self._offset_source().existing(ends.keys())

    def _plan(
        self, starts: Offsets, ends: Offsets, new_starts: Offsets, deleted: Collection[TopicPartition] = ()
    ) -> PlannedBatch:
        """Plan the ranges from `starts` to `ends`. Errors: DataLossError."""
        is_offline = self._options.tier.mode is TierMode.OFFLINE
        planned = plan_batch(starts, ends, new_starts, deleted=deleted, is_offline=is_offline)
        if self._options.fail_on_data_loss and planned.losses:
            raise DataLossError(planned.losses[0])
        return planned

    def _ends(self, start: Offsets) -> Offsets:
        pinned = self._progress.pinned_for(start)
        if pinned is not None:
            return pinned
        source = self._offset_source()
        ends = source.latest(source.partitions(all_must_exist=False, earlier_partitions=start.keys()), start)
        if self._progress.pinned is not None:
            return self._progress.replace_pinned(start, ends)
        self._reported = ends
        return ends

    def _offset_source(self) -> OffsetSource:
        if self._source is None:
            self._source = offset_source(self._options)
        return self._source
