"""Reports the progress of Spark's tasks while a query runs (shell)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S: Final = 0.3


@contextmanager
def watch_tasks(spark: SparkSession, on_tasks: Callable[[int, int], None]) -> Iterator[None]:
    """Call `on_tasks` with the completed and total tasks of the running jobs while the block runs.

    It is called from another thread, and not after the block has ended.
    """
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not ended.wait(_POLL_S):
            done = total = 0
            for job_id in tracker.getActiveJobsIds():
                job = tracker.getJobInfo(job_id)
                for stage_id in () if job is None else job.stageIds:
                    stage = tracker.getStageInfo(stage_id)
                    if stage is not None:
                        done += stage.numCompletedTasks
                        total += stage.numTasks
            if total and not ended.is_set():
                on_tasks(done, total)

    thread = threading.Thread(target=watch, name="tidelog-spark-tasks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
