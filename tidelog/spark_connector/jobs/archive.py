"""Archives a topic, or a span of time of it, as Parquet files, in commits (shell of `archive_plan`).

Each commit is a batch query over fixed ranges of offsets, not a micro-batch of a stream. A stream cannot end
at a time without reading past it, and its checkpoint would be a second record of what has been archived,
besides the manifests.

The whole folder can be read while no run is in progress and no killed run is waiting to be repeated.
`archived_files` lists the valid files at any time. Only one run at a time can archive a topic into a folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.base.clock import SystemClock
from tidelog.base.dataclass import dataclass
from tidelog.spark_connector.jobs.archive_plan import (
    STATE_FOLDER,
    ArchivedFile,
    Commit,
    file_name,
    file_number,
    file_offsets,
    manifest_name,
    manifest_number,
    next_ranges,
    read_commit,
    require_same_start,
    require_same_topic,
    require_within,
)
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.jobs.folders import Folder
from tidelog.spark_connector.jobs.task_watch import watch_tasks
from tidelog.spark_connector.jobs.topic_span import TopicSource, TopicSpan, find_span
from tidelog.spark_connector.planning.offsets_json import Offsets, to_text
from tidelog.spark_connector.planning.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS: Final = ("key", "value", "headers", "partition", "offset", "timestamp", "timestampType")
_SETTINGS: Final = {
    # Other readers support these better than Spark's default of 96 bits.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}

OnProgress = Callable[[int, int, str], None]
"""Called with the number of archived offsets, the number of all offsets, and a short text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest:
    """What to archive, and where; `source` has one topic. Times are in ms; None means no limit."""

    source: TopicSource
    output: str
    from_ms: int | None = None
    to_ms: int | None = None
    max_offsets_per_commit: int = 5_000_000
    compression: str = "zstd"

    @property
    def topic(self) -> str:
        """The one topic."""
        (topic,) = self.source.topics
        return topic


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The result of one run: its start and end offsets, and its commits."""

    span: TopicSpan
    commits: tuple[Commit, ...]

    @property
    def files(self) -> list[ArchivedFile]:
        """All files of the run."""
        return [file for commit in self.commits for file in commit.files]


def archive(spark: SparkSession, request: ArchiveRequest, on_progress: OnProgress) -> ArchiveResult:
    """Archive all records that are not archived yet, in as many commits as needed.

    Errors: JobFailure; KafkaError if brokers do not respond.
    """
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    run = _Run(spark, request, on_progress)
    return run.all()


def archived_files(spark: SparkSession, output: str, topic: str) -> list[str]:
    """Return the full paths of the valid Parquet files of `topic`."""
    manifests = _Manifests(Folder(spark, output), topic)
    numbers = range(manifests.last_number() + 1)
    return [manifests.folder.full(file.path) for number in numbers for file in manifests.commit(number).files]


class _Manifests:
    """The manifests of one topic in an output folder."""

    def __init__(self, folder: Folder, topic: str) -> None:
        self.folder = folder
        self.topic = topic
        self.commits = f"{STATE_FOLDER}/{topic}/commits"
        self.staging = f"{STATE_FOLDER}/{topic}/staging"

    def last_number(self) -> int:
        """Return the number of the last commit; -1 before the first."""
        names = (path.rpartition("/")[2] for path, _ in self.folder.files(self.commits))
        return max((number for name in names if (number := manifest_number(name)) is not None), default=-1)

    def last(self) -> Commit | None:
        """Return the last commit; None before the first."""
        number = self.last_number()
        return None if number < 0 else self.commit(number)

    def commit(self, number: int) -> Commit:
        """Return the commit with a number."""
        path = f"{self.commits}/{manifest_name(number)}"
        return read_commit(self.folder.read(path), self.folder.full(path))

    def remove_leftovers(self, last_number: int) -> None:
        """Remove the files of an unfinished run, which no manifest names."""
        if not self.folder.exists(self.staging):
            return
        for path, _ in list(self.folder.files(f"topic={self.topic}")):
            number = file_number(path.rpartition("/")[2])
            if number is not None and number > last_number:
                self.folder.remove(path)
        self.folder.remove(self.staging)


class _Run:
    """One run of the archive: commits ranges of offsets until the end of the span."""

    def __init__(self, spark: SparkSession, request: ArchiveRequest, on_progress: OnProgress) -> None:
        self._spark = spark
        self._request = request
        self._on_progress = on_progress
        self._folder = Folder(spark, request.output)
        self._manifests = _Manifests(self._folder, request.topic)

    def all(self) -> ArchiveResult:
        request = self._request
        last_commit = self._manifests.last()
        require_same_start(request.topic, last_commit, request.from_ms)
        from_ms = request.from_ms if last_commit is None else last_commit.from_ms
        span = find_span(
            request.source, from_ms, request.to_ms, {} if last_commit is None else last_commit.next_offsets
        )
        topic_id = span.topic_ids.get(request.topic)
        require_same_topic(last_commit, topic_id)
        number = -1 if last_commit is None else last_commit.number
        self._manifests.remove_leftovers(number)
        starts, commits, archived = span.starts, [], 0
        while ranges := next_ranges(starts, span.ends, request.max_offsets_per_commit):
            number += 1
            with watch_tasks(self._spark, self._tasks(ranges, archived, span.size, number)):
                commit = self._commit(number, topic_id, from_ms, starts, ranges)
            commits.append(commit)
            starts = commit.next_offsets
            archived += sum(one.size for one in ranges)
            self._on_progress(archived, span.size, f"commit {number}")
        return ArchiveResult(span, tuple(commits))

    def _tasks(
        self, ranges: list[OffsetRange], archived: int, total: int, number: int
    ) -> Callable[[int, int], None]:
        size = sum(offset_range.size for offset_range in ranges)

        def on_tasks(tasks_done: int, tasks: int) -> None:
            self._on_progress(
                archived + size * tasks_done // tasks, total, f"commit {number}, {tasks_done}/{tasks}"
            )

        return on_tasks

    def _commit(
        self,
        number: int,
        topic_id: UUID | None,
        from_ms: int | None,
        starts: Offsets,
        ranges: list[OffsetRange],
    ) -> Commit:
        self._folder.remove(self._manifests.staging)
        # While this folder exists, there can be files whose manifest is missing.
        self._folder.create(self._manifests.staging)
        rows = self._rows(ranges).sortWithinPartitions("topic", "date", "partition", "offset")
        writer = rows.write.mode("overwrite").partitionBy("topic", "date")
        staged = f"{self._manifests.staging}/rows"
        writer.option("compression", self._request.compression).parquet(self._folder.full(staged))
        files = self._move_files(number, staged, rows.schema, ranges)
        commit = Commit(
            number=number,
            topic=self._request.topic,
            topic_id=topic_id,
            from_ms=from_ms,
            starts=starts,
            next_offsets={
                **starts,
                **{offset_range.topic_partition: offset_range.end_offset for offset_range in ranges},
            },
            files=files,
            committed_at_ms=SystemClock().wall_ms(),
        )
        self._write(commit)
        self._folder.remove(self._manifests.staging)
        return commit

    def _rows(self, ranges: list[OffsetRange]) -> DataFrame:
        from pyspark.sql import functions as F

        options = self._request.source.reader_options(
            assign=_assign_option(self._request.topic, ranges),
            startingOffsets=to_text(
                {offset_range.topic_partition: offset_range.start_offset for offset_range in ranges}
            ),
            endingOffsets=to_text(
                {offset_range.topic_partition: offset_range.end_offset for offset_range in ranges}
            ),
            includeHeaders="true",
        )
        options.setdefault("minPartitions", str(self._spark.sparkContext.defaultParallelism))
        rows = self._spark.read.format("tidelog").options(**options).load()
        return rows.select("topic", F.to_date("timestamp").alias("date"), *_COLUMNS)

    def _move_files(
        self, number: int, staged: str, schema: object, ranges: list[OffsetRange]
    ) -> tuple[ArchivedFile, ...]:
        """Move the staged files to their final paths, and read from them which offsets they contain."""
        sizes = {
            path.removeprefix(f"{staged}/"): size
            for path, size in self._folder.files(staged)
            if path.endswith(".parquet")
        }
        staged_files = file_offsets(self._offsets_by_file(staged, schema) if sizes else (), sizes)
        require_within(staged_files.values(), ranges)
        archived_files = []
        for index, (path, file) in enumerate(sorted(staged_files.items())):
            folder = path.rpartition("/")[0]
            target = f"{folder}/{file_name(number, index)}"
            self._folder.create(folder)
            self._folder.move(f"{staged}/{path}", target)
            archived_files.append(
                ArchivedFile(path=target, rows=file.rows, size_bytes=file.size_bytes, offsets=file.offsets)
            )
        return tuple(archived_files)

    def _offsets_by_file(self, staged: str, schema: object) -> list[tuple[str, int, int, int, int]]:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        assert isinstance(schema, StructType)
        written = self._spark.read.schema(schema).parquet(self._folder.full(staged))
        rows = (
            written.select(F.col("_metadata.file_path").alias("path"), "partition", "offset")
            .groupBy("path", "partition")
            .agg(F.count("*"), F.min("offset"), F.max("offset"))
            .collect()
        )
        return [(row[0].rpartition(f"/{staged}/")[2], row[1], row[2], row[3], row[4]) for row in rows]

    def _write(self, commit: Commit) -> None:
        path = f"{self._manifests.commits}/{manifest_name(commit.number)}"
        all_exist = all(self._folder.exists(file.path) for file in commit.files)
        if not all_exist or self._folder.exists(path):
            raise JobFailure(
                f"another run archives {commit.topic} into {self._folder.location} at the same time"
            )
        self._folder.write(path, commit.to_text())


def _assign_option(topic: str, ranges: list[OffsetRange]) -> str:
    numbers = ",".join(str(offset_range.topic_partition.partition) for offset_range in ranges)
    return f'{{"{topic}":[{numbers}]}}'
