"""Streaming queries of tests: from topics to files or a topic, repeatedly with one checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

QUERY_TIMEOUT_S = 300


class Stream:
    """A streaming query that writes its records to files, or to the topic `into`."""

    def __init__(
        self, spark: SparkSession, servers: str, folder: Path, into: str | None = None, **options: str
    ) -> None:
        self._spark = spark
        self._servers = servers
        self._folder = folder
        self._into = into
        self._options = options
        self.batch_sizes: list[int] = []

    def start(self, *, available_now: bool = True) -> StreamingQuery:
        """Start the query; without `available_now` it runs until it is stopped."""
        reader = self._spark.readStream.format("tidelog").options(**self._options)
        writer = reader.option("kafka.bootstrap.servers", self._servers).load().writeStream
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        if available_now:
            writer = writer.trigger(availableNow=True)
        if self._into is not None:
            writer = writer.option("kafka.bootstrap.servers", self._servers)
            return writer.format("tidelog").option("topic", self._into).start()
        return writer.format("parquet").option("path", str(self._folder / "rows")).start()

    def run(self) -> StreamingQuery:
        """Read all available records and stop."""
        query = self.start()
        assert query.awaitTermination(QUERY_TIMEOUT_S), f"the query has not ended after {QUERY_TIMEOUT_S} s"
        self.batch_sizes = [one["numInputRows"] for one in query.recentProgress]
        return query

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows written so far."""
        rows: list[dict[str, Any]] = (
            self._spark.read.parquet(str(self._folder / "rows")).toArrow().to_pylist()
        )
        return rows

    def values(self) -> list[bytes]:
        """Return the values of all rows, sorted."""
        return sorted(row["value"] for row in self.rows())
