"""Telling how far Spark's tasks are while a query runs (shell)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S: Final = 0.3


@contextmanager
def watching_tasks(spark: SparkSession, on_tasks: Callable[[int, int], None]) -> Iterator[None]:
    """While the block runs, `on_tasks` hears how many tasks of the running jobs are done, and of how many.

    It is called from a thread of its own, and not any more when the block is over.
    """
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not over.wait(_POLL_S):
            done = total = 0
            for job_id in tracker.getActiveJobsIds():
                job = tracker.getJobInfo(job_id)
                for stage_id in () if job is None else job.stageIds:
                    stage = tracker.getStageInfo(stage_id)
                    if stage is not None:
                        done += stage.numCompletedTasks
                        total += stage.numTasks
            if total and not over.is_set():
                on_tasks(done, total)

    thread = threading.Thread(target=watch, name="tidelog-spark-tasks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
