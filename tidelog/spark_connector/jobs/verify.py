"""Verifies every byte of remote segments in Spark's tasks: a distributed `remote.inspection` (shell).

The driver lists the segments and checks what needs no reading. Each task opens the bucket again, because
connections cannot be sent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.inspection.findings import Finding
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.spark_connector.jobs.task_watch import watch_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A task costs tens of ms, so small segments share one.
_TASK_BYTES: Final = 64 << 20
_TASKS_PER_CORE: Final = 4


def inspect_with_spark(
    spark: SparkSession,
    storage_values: Mapping[str, str],
    segments: Sequence[RemoteLogSegmentMetadata],
    on_tasks: Callable[[int, int], None],
) -> list[Finding]:
    """Return the defects of the segments, in their order.

    Errors: those of Spark; a store that does not respond fails a task.
    """
    if not segments:
        return []
    context = spark.sparkContext
    groups = group_segments(segments, _TASKS_PER_CORE * context.defaultParallelism)
    values = dict(storage_values)
    tasks = context.parallelize(groups, len(groups))
    with watch_tasks(spark, on_tasks):
        findings = tasks.flatMap(lambda group: list(_inspect(values, group))).collect()
    order = {segment.remote_log_segment_id.id: number for number, segment in enumerate(segments)}
    return sorted(findings, key=lambda finding: order[finding.segment] if finding.segment else -1)


def group_segments(
    segments: Iterable[RemoteLogSegmentMetadata], min_tasks: int, task_bytes: int = _TASK_BYTES
) -> list[list[RemoteLogSegmentMetadata]]:
    """Divide segments into tasks of about equal size, at least `task_bytes` unless there are too few tasks.

    There are at least `min_tasks` tasks, or one for each segment if there are fewer segments.
    """
    ordered = sorted(segments, key=lambda segment: segment.segment_size_bytes, reverse=True)
    total = sum(segment.segment_size_bytes for segment in ordered)
    count = min(len(ordered), max(min_tasks, -(-total // task_bytes)))
    groups: list[list[RemoteLogSegmentMetadata]] = [[] for _ in range(count)]
    # Largest first, each to the smallest task: at most a third more than the optimum.
    loads = [(0, number) for number in range(count)]
    for segment in ordered:
        load, number = heapq.heappop(loads)
        groups[number].append(segment)
        heapq.heappush(loads, (load + segment.segment_size_bytes, number))
    return groups


def _inspect(
    storage_values: Mapping[str, str], segments: Sequence[RemoteLogSegmentMetadata]
) -> Iterator[Finding]:
    bucket = Bucket.open(storage_values)
    try:
        for segment in segments:
            yield from inspect_segment(bucket.storage, segment)
    finally:
        bucket.close()
