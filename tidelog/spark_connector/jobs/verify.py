"""Every byte of remote segments, read by Spark's tasks: the deep look of `remote.inspection`, spread (shell).

Which segments there are, and what was found without reading them, is the driver's; a task opens the bucket
anew, as connections cannot travel.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.inspection.findings import Finding
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.spark_connector.jobs.task_watch import watching_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A task costs some tens of ms, so small segments share one.
_TASK_BYTES: Final = 64 << 20
_TASKS_PER_CORE: Final = 4


def inspect_with_spark(
    spark: SparkSession,
    storage_values: Mapping[str, str],
    segments: Sequence[RemoteLogSegmentMetadata],
    on_tasks: Callable[[int, int], None],
) -> list[Finding]:
    """What is wrong with the segments, in their order.

    Errors: those of Spark; a store that does not answer fails a task.
    """
    if not segments:
        return []
    context = spark.sparkContext
    groups = grouped(segments, _TASKS_PER_CORE * context.defaultParallelism)
    values = dict(storage_values)
    tasks = context.parallelize(groups, len(groups))
    with watching_tasks(spark, on_tasks):
        found = tasks.flatMap(lambda group: list(_inspected(values, group))).collect()
    order = {segment.remote_log_segment_id.id: number for number, segment in enumerate(segments)}
    return sorted(found, key=lambda finding: order[finding.segment] if finding.segment else -1)


def grouped(
    segments: Iterable[RemoteLogSegmentMetadata], tasks_wanted: int, task_bytes: int = _TASK_BYTES
) -> list[list[RemoteLogSegmentMetadata]]:
    """Segments for each task: about equal bytes, `task_bytes` or more unless that makes too few tasks.

    There are `tasks_wanted` at least where there are so many segments, else a task for each.
    """
    ordered = sorted(segments, key=lambda segment: segment.segment_size_bytes, reverse=True)
    total = sum(segment.segment_size_bytes for segment in ordered)
    count = min(len(ordered), max(tasks_wanted, -(-total // task_bytes)))
    groups: list[list[RemoteLogSegmentMetadata]] = [[] for _ in range(count)]
    # The largest first, each to the task that has least: no more than a third over the best there is.
    loads = [(0, number) for number in range(count)]
    for segment in ordered:
        load, number = heapq.heappop(loads)
        groups[number].append(segment)
        heapq.heappush(loads, (load + segment.segment_size_bytes, number))
    return groups


def _inspected(
    storage_values: Mapping[str, str], segments: Sequence[RemoteLogSegmentMetadata]
) -> Iterator[Finding]:
    bucket = Bucket.open(storage_values)
    try:
        for segment in segments:
            yield from inspect_segment(bucket.storage, segment)
    finally:
        bucket.close()
