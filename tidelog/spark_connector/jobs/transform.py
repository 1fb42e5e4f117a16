"""Transforms a topic into another one with SQL, as a stream with a checkpoint (shell).

At least once: after a crash the records of one micro-batch may be written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.jobs.topic_span import TopicSource
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.sink_columns import ColumnError, check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VIEW: Final = "source"
_OBSERVED: Final = "written"
_POLL_S: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRequest:
    """Reads the one topic of `source` with `sql`, from the view `source`, and writes topic `target`.

    `sink_options` are more options of the sink. With `follows`, the job runs until it is stopped.
    """

    source: TopicSource
    sql: str
    target: str
    target_servers: str
    checkpoint: str
    sink_options: dict[str, str]
    starting: str = "earliest"
    follows: bool = False

    def __post_init__(self) -> None:
        if self.target in self.source.topics and self.target_servers == self.source.servers:
            raise OptionError(f"topic {self.target} would be written to itself: it would never end")

    @property
    def target_source(self) -> TopicSource:
        """Return the target as a source, with the options for its connection."""
        connection_options = {
            name: text
            for name, text in self.sink_options.items()
            if name.lower().startswith(("kafka.ssl.", "kafka.sasl.", "kafka.security."))
        }
        return TopicSource(servers=self.target_servers, topics=(self.target,), options=connection_options)


@dataclass(slots=True)
class TransformResult:
    """The result of a run; `end_offsets` is Spark's JSON of the next start, None without a batch."""

    batches: int = 0
    records_read: int = 0
    records_written: int = 0
    end_offsets: str | None = None

    def add(self, progress: Any) -> None:
        """Add the progress of one micro-batch."""
        self.batches += 1
        self.records_read += progress.numInputRows
        observed = progress.observedMetrics.get(_OBSERVED)
        self.records_written += 0 if observed is None else observed["records"]
        self.end_offsets = progress.sources[0].endOffset


def transform(
    spark: SparkSession, request: TransformRequest, on_progress: Callable[[TransformResult], None]
) -> TransformResult:
    """Process the records that exist at the start; with `follows`, run until ctrl-C.

    Errors: JobFailure; those of Spark.
    """
    query = _start(spark, request)
    result = TransformResult()
    last_batch_id = -1
    try:
        while True:
            ended = query.awaitTermination(_POLL_S)
            for progress in query.recentProgress:
                if progress.batchId > last_batch_id and progress.numInputRows:
                    result.add(progress)
                last_batch_id = max(last_batch_id, progress.batchId)
            on_progress(result)
            if ended:
                return result
    except KeyboardInterrupt:
        if not request.follows:
            raise
        return result
    finally:
        query.stop()


def _start(spark: SparkSession, request: TransformRequest) -> StreamingQuery:
    frame = _transform_rows(spark, request)
    options = {
        **request.sink_options,
        "kafka.bootstrap.servers": request.target_servers,
        "topic": request.target,
        "checkpointLocation": request.checkpoint,
    }
    writer = frame.writeStream.format("tidelog").options(**options)
    return (writer if request.follows else writer.trigger(availableNow=True)).start()


def _transform_rows(spark: SparkSession, request: TransformRequest) -> DataFrame:
    from pyspark.sql import functions as F

    options = request.source.reader_options(
        subscribe=",".join(request.source.topics), startingOffsets=request.starting, includeHeaders="true"
    )
    spark.readStream.format("tidelog").options(**options).load().createOrReplaceTempView(VIEW)
    frame = spark.sql(request.sql)
    if not frame.isStreaming:
        raise JobFailure(f"--sql reads nothing FROM {VIEW}: {request.sql!r}")
    try:
        check_columns(
            [(field.name, field.dataType.simpleString()) for field in frame.schema.fields], request.target
        )
    except ColumnError as error:
        raise JobFailure(f"--sql: {error}") from error
    return frame.observe(_OBSERVED, F.count("*").alias("records"))
