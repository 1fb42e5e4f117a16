"""How the rows of a query get into topics, whatever is promised about it.

Spark's order: `open_task` on an executor for each task, `write` per Arrow batch, `finish`; then on the driver
`commit` with what the tasks reported. `abort` comes where a task failed, with None for tasks that reported
nothing, and also after a `commit` that raised: so it may not undo what was decided.

The driver has a new object for every micro-batch. After a crash a stream does a micro-batch again under the
same `batch_id`, with the same rows, though perhaps in other tasks: a delivery that writes a batch only once
has to tell batches apart by (`query_id`, `batch_id`), never by tasks; so both stand in every report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TaskId:
    """Which task writes; `query_id` and `batch_id` are None where no stream does.

    `partition_id` is the task's number within its job, `attempt` counts from 0.
    """

    query_id: str | None
    batch_id: int | None
    partition_id: int
    attempt: int


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """What a task that finished tells the driver."""

    task: TaskId
    records: int


class TaskDelivery(Protocol):
    """The rows of one task."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; blocks while too much is on its way."""

    def finish(self) -> TaskReport:
        """Wait until everything is as safe as this delivery promises; raises when it is not."""

    def close(self) -> None:
        """Leave; what has not been finished is given up."""


class Delivery(Protocol):
    """One query's way into topics; goes to executors by pickling."""

    def open_task(self, task: TaskId) -> TaskDelivery:
        """Begin the rows of one task, on its executor."""

    def commit(self, reports: Sequence[TaskReport | None], batch_id: int | None) -> None:
        """All tasks finished; on the driver."""

    def abort(self, reports: Sequence[TaskReport | None], batch_id: int | None) -> None:
        """A task failed, or `commit` raised; on the driver."""
