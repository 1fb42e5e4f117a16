"""The identity and the report of a task of the sink, and the order of Spark's write calls.

Spark calls `open_task` on an executor for each task, `write` for each Arrow batch, and `finish`. Then it
calls `commit` on the driver with the reports of the tasks. It calls `abort` if a task failed, with None for
tasks without a report, and after a `commit` that raised an error: `abort` must not undo a decided commit.

The driver has a new object for each micro-batch. After a crash, a stream repeats a micro-batch with the same
`batch_id` and the same rows, but perhaps in other tasks. A delivery that writes a batch exactly once must
therefore identify batches by (`query_id`, `batch_id`), never by tasks. Every report contains both.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


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
