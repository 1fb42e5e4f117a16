"""The interface between Spark's write calls and the delivery of rows to topics.

Spark calls `open_task` on an executor for each task, `write` for each Arrow batch, and `finish`. Then it
calls `commit` on the driver with the reports of the tasks. It calls `abort` if a task failed, with None for
tasks without a report, and after a `commit` that raised an error: `abort` must not undo a decided commit.

The driver has a new object for each micro-batch. After a crash, a stream repeats a micro-batch with the same
`batch_id` and the same rows, but perhaps in other tasks. A delivery that writes a batch exactly once must
therefore identify batches by (`query_id`, `batch_id`), never by tasks. Every report contains both.
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
    """Identifies a task; `query_id` and `batch_id` are None for a batch query.

    `partition_id` is the task's number within its job, `attempt` starts at 0.
    """

    query_id: str | None
    batch_id: int | None
    partition_id: int
    attempt: int


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """The report of a completed task to the driver."""

    task: TaskId
    records: int


class TaskDelivery(Protocol):
    """Delivers the rows of one task."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows; block while too many rows are in flight."""

    def finish(self) -> TaskReport:
        """Wait until the delivery guarantee holds for all rows. Raise an error if it cannot."""

    def close(self) -> None:
        """Release resources, and discard rows that are not finished."""


class Delivery(Protocol):
    """Delivers the rows of one query; it is pickled for the executors."""

    def open_task(self, task: TaskId) -> TaskDelivery:
        """Start the rows of one task, on its executor."""

    def commit(self, reports: Sequence[TaskReport | None], batch_id: int | None) -> None:
        """Complete a batch whose tasks have all finished; called on the driver."""

    def abort(self, reports: Sequence[TaskReport | None], batch_id: int | None) -> None:
        """End a batch in which a task failed or `commit` raised an error; called on the driver."""
