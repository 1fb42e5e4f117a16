"""The reader of `spark.read.format("tidelog")`: the range of each partition is fixed at planning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from tidelog.spark_connector.planning.filters import Comparison, Pruning, Relation, read_pruning
from tidelog.spark_connector.planning.offset_specs import AtTimestamp
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import PUSHDOWN, SourceOptions
from tidelog.spark_connector.reading.input_partitions import input_partitions, read_partition
from tidelog.spark_connector.reading.offset_source import OffsetSource, offset_source

if TYPE_CHECKING:
    import pyarrow as pa

_RELATIONS: Final[Mapping[type[Filter], Relation]] = {
    LessThan: Relation.LESS,
    LessThanOrEqual: Relation.LESS_OR_EQUAL,
    GreaterThan: Relation.GREATER,
    GreaterThanOrEqual: Relation.GREATER_OR_EQUAL,
}


class TidelogBatchReader(DataSourceReader):
    """Plans on the driver and reads on executors; it contains only options, because it is pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pruning = Pruning()

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with offset_source(options) as source:
            partitions = source.partitions(all_must_exist=True)
            starts = source.resolve(options.starting, partitions, is_start=True)
            ends = source.resolve(options.ending, partitions, is_start=False)
            ranges = [
                OffsetRange(topic_partition, starts[topic_partition], ends[topic_partition])
                for topic_partition in sorted(partitions)
            ]
            for offset_range in ranges:
                if offset_range.size < 0:
                    raise OptionError(
                        f"options startingOffsets and endingOffsets: {offset_range.topic_partition} would be "
                        f"read from offset {offset_range.start_offset} to {offset_range.end_offset}; "
                        "its start is after its end"
                    )
            return input_partitions(options, source, self._prune(source, ranges))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    def _prune(self, source: OffsetSource, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the parts that the filters allow; request offsets by timestamp if there is such a filter."""
        allowed = self._pruning.narrow(ranges, {})
        first_ms = self._pruning.first_timestamp_ms
        if first_ms is None or not allowed:
            return allowed
        partitions = [offset_range.topic_partition for offset_range in allowed]
        # If there is no such record, this is the end.
        first_offsets = source.resolve(AtTimestamp(PUSHDOWN, first_ms), partitions, is_start=False)
        return self._pruning.narrow(allowed, first_offsets)


class FilteringBatchReader(TidelogBatchReader):
    """Accepts filters from Spark, which fails a query with such a reader unless its settings allow it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Record the filters, and return all of them, so that Spark checks every row itself."""
        self._pruning = read_pruning([one for each in filters if (one := as_comparison(each)) is not None])
        return filters


def as_comparison(pushed: Filter) -> Comparison | None:
    """Return a filter of Spark as a comparison; None if it cannot skip anything."""
    match pushed:
        case EqualTo(attribute=(column,), value=value) | EqualNullSafe(attribute=(column,), value=value):
            return Comparison(column, Relation.ONE_OF, (value,))
        case In(attribute=(column,), value=values):
            return Comparison(column, Relation.ONE_OF, values)
        case LessThan() | LessThanOrEqual() | GreaterThan() | GreaterThanOrEqual():
            if len(pushed.attribute) == 1:
                return Comparison(pushed.attribute[0], _RELATIONS[type(pushed)], (pushed.value,))
    return None
