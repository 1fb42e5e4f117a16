"""`spark.read.format("tidelog")`: a range of each partition, fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_connector.input_partitions import range_partitions, read_partition
from spark_connector.planning.option_values import OptionError
from spark_connector.planning.ranges import OffsetRange, split_ranges
from spark_connector.planning.source_options import SourceOptions
from spark_connector.reading.cluster_offsets import ClusterOffsets
from spark_connector.reading.range_reader import ReadSettings

if TYPE_CHECKING:
    import pyarrow as pa


class TidelogBatchReader(DataSourceReader):
    """Plans on the driver, reads on executors; holds nothing but options, as it is pickled in between."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with ClusterOffsets(options) as cluster:
            partitions = cluster.partitions(all_must_exist=True)
            starts = cluster.resolve(options.starting, partitions, is_start=True)
            ends = cluster.resolve(options.ending, partitions, is_start=False)
        ranges = [OffsetRange(one, starts[one], ends[one]) for one in sorted(partitions)]
        for one in ranges:
            if one.size < 0:
                raise OptionError(
                    f"options startingOffsets and endingOffsets: {one.topic_partition} would be read "
                    f"from offset {one.start_offset} to {one.end_offset}, its start is beyond its end"
                )
        return range_partitions(
            split_ranges(
                ranges,
                min_partitions=options.min_partitions,
                max_records_per_partition=options.max_records_per_partition,
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(ReadSettings.of(self._options), partition)
