"""The writers of `format("tidelog")`: they pass Spark's calls to `AtLeastOnce`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidelog.spark_connector.arrow.worker_memory import freeze_imports
from tidelog.spark_connector.writing.at_least_once import AtLeastOnce
from tidelog.spark_connector.writing.delivery import TaskId, TaskReport

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


class TidelogBatchWriter(DataSourceArrowWriter):
    """Writes one batch query; it is pickled for its `write`."""

    def __init__(self, delivery: AtLeastOnce) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write_task(self._delivery, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._delivery.commit(_reports(messages), None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._delivery.abort(_reports(messages), None)


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch; Spark creates a new object for each, and one more to commit it."""

    def __init__(self, delivery: AtLeastOnce) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write_task(self._delivery, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._delivery.commit(_reports(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._delivery.abort(_reports(messages), batchId)


def _write_task(delivery: AtLeastOnce, batches: Iterator[pa.RecordBatch]) -> TaskReport:
    freeze_imports()
    with closing(delivery.open_task(_this_task())) as task:
        for rows in batches:
            task.write(rows)
        return task.finish()


def _this_task() -> TaskId:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    batch_id = context.getLocalProperty(_BATCH_ID)
    return TaskId(
        query_id=context.getLocalProperty(_QUERY_ID),
        batch_id=None if batch_id is None else int(batch_id),
        partition_id=context.partitionId(),
        attempt=context.attemptNumber(),
    )


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport | None]:
    return [cast("TaskReport | None", message) for message in messages]
