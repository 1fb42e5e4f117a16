"""Reads the demo's topic with a streaming query of Spark, whose tasks read the tier directly.

Micro-batches count lines, bytes and checksums by partition and module. Their sums must be equal to those of
the produced records.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.dataclass import dataclass
from tidelog.demo.comparison import Fingerprint
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.jobs.session import SessionSettings, job_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RESULT: Final = "demo_counts"
_MICRO_BATCHES: Final = 3
_DEADLINE_S: Final = 300.0
_LARGEST: Final = 3
# Each partition's share of a micro-batch is rounded down; the rest must not need another micro-batch.
_ROUNDING: Final = 100
_SETTINGS: Final = SessionSettings(
    conf={
        # Spark writes the state of each shuffle partition after each micro-batch.
        "spark.sql.shuffle.partitions": "2",
        # The query is too short for the JVM's second compiler, which would use half of the CPU time.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
)


@dataclass(frozen=True, slots=True)
class GroupCount:
    """The counts of one module in one partition; `cold` lines were only in the tier."""

    partition: int
    module: str
    lines: int
    cold: int
    size_bytes: int
    crc_sum: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of the query after all micro-batches."""

    groups: tuple[GroupCount, ...]
    micro_batches: int
    seconds: float

    @property
    def records(self) -> int:
        """The number of lines."""
        return sum(group.lines for group in self.groups)

    @property
    def cold(self) -> int:
        """The number of lines that were only in the tier."""
        return sum(group.cold for group in self.groups)

    @property
    def keys(self) -> int:
        """The number of modules."""
        return len({group.module for group in self.groups})

    @property
    def crc_sum(self) -> int:
        """The sum of the checksums of all lines."""
        return sum(group.crc_sum for group in self.groups)

    def is_of(self, source: Fingerprint) -> bool:
        """Return whether the result is equal to what was produced, regardless of the order."""
        size_bytes = sum(group.size_bytes for group in self.groups)
        fingerprint = (self.records, self.keys, size_bytes, self.crc_sum)
        return fingerprint == (source.records, source.keys, source.size_bytes, source.crc_sum)

    def largest(self) -> str:
        """Return the modules with the most lines as text."""
        lines = Counter({group.module: group.lines for group in self.groups})
        return ", ".join(f"{module} ({count:,} lines)" for module, count in lines.most_common(_LARGEST))

    def table(self) -> Table:
        """Return a table with one line for each partition, and their sum."""
        table = Table(
            title=f"Streaming query, {self.micro_batches} micro-batches: lines by partition and module",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            show_footer=True,
        )
        size_bytes = sum(group.size_bytes for group in self.groups)
        for heading, footer in (
            ("", ""),
            ("lines", f"{self.records:,}"),
            ("cold", f"{self.cold:,}"),
            ("hot", f"{self.records - self.cold:,}"),
            ("MB", f"{size_bytes / 1e6:.1f}"),
            ("modules", f"{self.keys:,}"),
        ):
            table.add_column(heading, footer, justify="right", no_wrap=True)
        for partition in sorted({group.partition for group in self.groups}):
            partition_groups = [group for group in self.groups if group.partition == partition]
            lines = sum(group.lines for group in partition_groups)
            cold = sum(group.cold for group in partition_groups)
            table.add_row(
                str(partition),
                f"{lines:,}",
                f"{cold:,}",
                f"{lines - cold:,}",
                f"{sum(group.size_bytes for group in partition_groups) / 1e6:.1f}",
                f"{len(partition_groups):,}",
            )
        return table


class StreamQuery:
    """The query over `topic`; `tier_options` has the bucket's settings, with the keys of brokers."""

    def __init__(
        self, servers: str, topic: str, tier_options: Mapping[str, str], expected_records: int
    ) -> None:
        self._options = {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(expected_records // _MICRO_BATCHES + _ROUNDING),
            "tier": "direct",
            **tier_options,
        }

    async def run(self, local_starts: Mapping[int, int], advance: Callable[[int], None]) -> QueryResult:
        """Run the query; lines below the offset in `local_starts` are cold. Errors: JobFailure."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._run, local_starts, advance, stop)
        finally:
            # A thread cannot be cancelled; without this ctrl-C would wait for the query.
            stop.set()

    def _run(
        self, local_starts: Mapping[int, int], advance: Callable[[int], None], stop: threading.Event
    ) -> QueryResult:
        with job_session("demo", _SETTINGS) as spark:
            began = SYSTEM_CLOCK.monotonic_s()
            micro_batches = self._wait_until_read(_count(self._rows(spark), local_starts), advance, stop)
            seconds = SYSTEM_CLOCK.monotonic_s() - began
            rows = spark.table(_RESULT).toArrow().to_pylist()
        groups = [GroupCount(**row) for row in rows]
        return QueryResult(tuple(groups), micro_batches, seconds)

    def _rows(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.format("tidelog").options(**self._options).load()

    def _wait_until_read(
        self, counts: DataFrame, advance: Callable[[int], None], stop: threading.Event
    ) -> int:
        """Run the query to its end; return the number of micro-batches."""
        deadline = SYSTEM_CLOCK.monotonic_s() + _DEADLINE_S
        with tempfile.TemporaryDirectory(prefix="tidelog-demo-checkpoint-") as checkpoint:
            writer = counts.writeStream.outputMode("complete").format("memory").queryName(_RESULT)
            writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            query = writer.start()
            batch_ids: set[int] = set()
            try:
                while True:
                    has_ended = query.awaitTermination(1)
                    for progress in query.recentProgress:
                        if progress.numInputRows and progress.batchId not in batch_ids:
                            batch_ids.add(progress.batchId)
                            advance(progress.numInputRows)
                    if has_ended:
                        return len(batch_ids)
                    if stop.is_set() or SYSTEM_CLOCK.monotonic_s() > deadline:
                        raise JobFailure(f"the query has not ended after {_DEADLINE_S:.0f} s")
            finally:
                query.stop()


def _count(rows: DataFrame, local_starts: Mapping[int, int]) -> DataFrame:
    from pyspark.sql import functions as F

    starts = F.create_map(*(F.lit(number) for pair in local_starts.items() for number in pair))
    size = F.octet_length("key") + F.octet_length("value")
    return rows.groupBy("partition", F.col("key").cast("string").alias("module")).agg(
        F.count("*").alias("lines"),
        F.count_if(F.col("offset") < starts[F.col("partition")]).alias("cold"),
        F.sum(size).alias("size_bytes"),
        F.sum(F.crc32(F.concat("key", "value"))).alias("crc_sum"),
    )
