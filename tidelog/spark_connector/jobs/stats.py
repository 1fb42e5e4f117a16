"""Counts the figures of `stats_report` (shell).

Topics are read once. The counted columns are cached in Spark's memory and on its disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.jobs.stats_report import (
    QUANTILES,
    Counts,
    KeyCount,
    SizeStats,
    TopicStats,
    partition_stats,
    topic_stats,
)
from tidelog.spark_connector.jobs.task_watch import watch_tasks
from tidelog.spark_connector.jobs.topic_span import TopicSource, TopicSpan
from tidelog.spark_connector.planning.offsets_json import to_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRequest:
    """What to count: the `span` of the topics, and how many of the largest keys to name."""

    source: TopicSource
    span: TopicSpan
    top: int = 10


def count_topics(
    spark: SparkSession, request: StatsRequest, on_tasks: Callable[[str, int, int], None]
) -> list[TopicStats]:
    """Return the figures of each topic, in order; `on_tasks` is called with the step and its progress."""
    narrow = _select_columns(spark, request).persist()
    try:
        return _count(spark, narrow, request, on_tasks)
    finally:
        narrow.unpersist()


def _count(
    spark: SparkSession,
    narrow: DataFrame,
    request: StatsRequest,
    on_tasks: Callable[[str, int, int], None],
) -> list[TopicStats]:
    def collect(step: str, frame: DataFrame) -> list[Row]:
        with watch_tasks(spark, lambda done, tasks: on_tasks(step, done, tasks)):
            return frame.collect()

    partition_rows = collect("reading", narrow.groupBy("topic", "partition").agg(*_aggregates()))
    topic_rows = collect("keys and sizes", narrow.groupBy("topic").agg(*_aggregates()))
    disorder = collect("times", _disorder(narrow))
    by_partition = partition_stats(
        request.span.starts,
        request.span.ends,
        {_name(row): _counts(row) for row in partition_rows},
        {_name(row): (row["count"], row["step_back"]) for row in disorder},
    )
    by_topic = {row["topic"]: _counts(row) for row in topic_rows}
    reports = []
    for topic, partitions in by_partition.items():
        keys = _keys(narrow, topic)
        largest = {
            order: [
                KeyCount(key=bytes(row["key"]), records=row["records"], size_bytes=row["bytes"])
                for row in collect("largest keys", _largest(keys, order, request.top))
            ]
            for order in ("records", "bytes")
        }
        counts = by_topic.get(topic, Counts())
        reports.append(topic_stats(topic, counts, partitions, largest["records"], largest["bytes"]))
    return reports


def _select_columns(spark: SparkSession, request: StatsRequest) -> DataFrame:
    from pyspark.sql import functions as F

    span = request.span
    options = request.source.reader_options(
        subscribe=",".join(request.source.topics),
        startingOffsets=to_text(span.starts),
        endingOffsets=to_text(span.ends),
    )
    options.setdefault("minPartitions", str(spark.sparkContext.defaultParallelism))
    key_bytes = F.coalesce(F.octet_length("key"), F.lit(0)).cast("long")
    value_bytes = F.coalesce(F.octet_length("value"), F.lit(0)).cast("long")
    return (
        spark.read.format("tidelog")
        .options(**options)
        .load()
        .select(
            "topic",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("time"),
            "key",
            key_bytes.alias("key_bytes"),
            value_bytes.alias("value_bytes"),
            F.col("value").isNull().alias("tombstone"),
        )
    )


def _aggregates() -> list[Column]:
    from pyspark.sql import functions as F

    size = F.col("key_bytes") + F.col("value_bytes")
    return [
        F.count("*").alias("records"),
        F.sum("key_bytes").alias("key_bytes"),
        F.sum("value_bytes").alias("value_bytes"),
        F.count_if(F.col("key").isNull()).alias("null_keys"),
        F.count_if("tombstone").alias("tombstones"),
        F.approx_count_distinct("key", 0.02).alias("distinct_keys"),
        F.percentile_approx(size, list(QUANTILES), 10_000).alias("quantiles"),
        F.max(size).alias("largest"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
    ]


def _counts(row: Row) -> Counts:
    p50, p90, p99 = row["quantiles"]
    return Counts(
        records=row["records"],
        key_bytes=row["key_bytes"],
        value_bytes=row["value_bytes"],
        null_keys=row["null_keys"],
        tombstones=row["tombstones"],
        distinct_keys=row["distinct_keys"],
        sizes=SizeStats(p50=p50, p90=p90, p99=p99, max=row["largest"]),
        first_timestamp_ms=row["first"],
        last_timestamp_ms=row["last"],
    )


def _disorder(narrow: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = F.lag("time").over(Window.partitionBy("topic", "partition").orderBy("offset"))
    steps = narrow.select("topic", "partition", (before - F.col("time")).alias("step_back"))
    late = steps.where("step_back > 0").groupBy("topic", "partition")
    return late.agg(F.count("*").alias("count"), F.max("step_back").alias("step_back"))


def _keys(narrow: DataFrame, topic: str) -> DataFrame:
    from pyspark.sql import functions as F

    size = F.col("key_bytes") + F.col("value_bytes")
    with_key = narrow.where((F.col("topic") == topic) & F.col("key").isNotNull())
    return with_key.groupBy("key").agg(F.count("*").alias("records"), F.sum(size).alias("bytes"))


def _largest(keys: DataFrame, order: str, count: int) -> DataFrame:
    from pyspark.sql import functions as F

    return keys.orderBy(F.desc(order), "key").limit(count)


def _name(row: Any) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])
