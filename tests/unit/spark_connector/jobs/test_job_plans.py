"""Decisions of jobs without Spark: commits of an archive, groups of segments, figures, times, messages."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from tests.support.tier.segment_metadata import copy_start
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.jobs.archive_plan import (
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
from tidelog.spark_connector.jobs.failures import JobFailure, cause_in
from tidelog.spark_connector.jobs.runtime import java_command, java_major, require_java
from tidelog.spark_connector.jobs.stats_report import Counts, partition_stats, skew, topic_stats
from tidelog.spark_connector.jobs.times import read_time_ms, time_text
from tidelog.spark_connector.jobs.topic_span import TopicSource, find_span
from tidelog.spark_connector.jobs.verify import group_segments
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import OffsetRange

ZERO, ONE = TopicPartition("tides", 0), TopicPartition("tides", 1)
FILE = ArchivedFile(path="topic=tides/date=2026-01-31/x", rows=3, size_bytes=99, offsets={0: (7, 9)})


def commit(**changed: object) -> Commit:
    values: dict[str, object] = {
        "number": 4,
        "topic": "tides",
        "topic_id": UUID(int=5),
        "from_ms": None,
        "starts": {ZERO: 7, ONE: 0},
        "next_offsets": {ZERO: 10, ONE: 0},
        "files": (FILE,),
        "committed_at_ms": 1,
    }
    return Commit(**{**values, **changed})  # type: ignore[arg-type]


# --- the start of a run ---


class Bucket:
    """The records of `tides` in a bucket: one partition, up to `end`."""

    def __init__(self, end: int) -> None:
        self.end = end

    def __enter__(self) -> Bucket:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the bucket has no resources."""

    def partitions(self, *, all_must_exist: bool) -> frozenset[TopicPartition]:
        return frozenset({ZERO})

    def latest(self, partitions: frozenset[TopicPartition], _: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def topic_ids(self, topics: tuple[str, ...]) -> dict[str, UUID]:
        return dict.fromkeys(topics, UUID(int=5))

    def resolve(
        self, spec: object, partitions: frozenset[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if is_start else self.end)


def test_a_run_that_continues_offline_accepts_a_smaller_end_in_the_tier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Earlier runs read through brokers, which know a partition that has no segment yet."""
    monkeypatch.setattr("tidelog.spark_connector.jobs.topic_span.offset_source", lambda _: Bucket(9))
    store = {"rsm.config.storage.backend.class": "filesystem", "rsm.config.storage.root": "."}
    source = TopicSource(servers="localhost:1", topics=("tides",), options={"tier": "offline", **store})
    span = find_span(source, None, None, {ZERO: 7, ONE: 0})
    assert (span.size, span.ends) == (2, {ZERO: 9, ONE: 0})
    with pytest.raises(JobFailure, match=r"offset 12 before, and the bucket has it up to 9: "):
        find_span(source, None, None, {ZERO: 12})


# --- archive ---


def test_a_manifest_round_trips() -> None:
    one = commit(from_ms=17)
    assert read_commit(one.to_text(), "here") == one
    assert (one.rows, one.size_bytes) == (3, 99)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', commit().to_text()[:-9]])
def test_an_invalid_manifest_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(JobFailure, match=r"^/archive/000000004.json is not a manifest of an archive: "):
        read_commit(text, "/archive/000000004.json")


def test_file_names_contain_the_commit() -> None:
    assert manifest_number(manifest_name(12)) == file_number(file_name(12, 3)) == 12
    # A file of an incomplete commit that is not recognized would be read permanently, as a duplicate.
    assert file_number(file_name(12, 123_456)) == 12
    assert [manifest_number(name) for name in (".000000012.json.crc", "000000012.json.draft", "x")] == [
        None
    ] * 3
    assert [file_number(name) for name in ("part-00000.parquet", "commit-12.parquet")] == [None] * 2


def test_commits_are_contiguous_until_the_archive_is_complete() -> None:
    starts, ends = {ZERO: 5, ONE: 40}, {ZERO: 105, ONE: 50}
    offsets_by_partition: dict[TopicPartition, list[int]] = {ZERO: [], ONE: []}
    while ranges := next_ranges(starts, ends, 30):
        assert sum(offset_range.size for offset_range in ranges) <= 31
        for offset_range in ranges:
            assert offset_range.start_offset == starts[offset_range.topic_partition]
            offsets_by_partition[offset_range.topic_partition] += range(
                offset_range.start_offset, offset_range.end_offset
            )
            starts = {**starts, offset_range.topic_partition: offset_range.end_offset}
    assert offsets_by_partition == {ZERO: list(range(5, 105)), ONE: list(range(40, 50))}


def test_files_are_counted_over_all_partitions() -> None:
    files = file_offsets([("a", 0, 3, 7, 9), ("a", 1, 2, 0, 1)], {"a": 10, "b": 4})
    assert files["a"] == ArchivedFile(path="a", rows=5, size_bytes=10, offsets={0: (7, 9), 1: (0, 1)})
    assert (files["b"].rows, files["b"].offsets) == (0, {})
    require_within(files.values(), [OffsetRange(ZERO, 7, 10), OffsetRange(ONE, 0, 2)])
    for wrong in ([OffsetRange(ZERO, 7, 10)], [OffsetRange(ZERO, 8, 10), OffsetRange(ONE, 0, 2)]):
        with pytest.raises(JobFailure, match="not requested"):
            require_within(files.values(), wrong)


def test_an_archive_keeps_its_start() -> None:
    require_same_start("tides", None, 5)
    require_same_start("tides", commit(from_ms=5), None)
    require_same_start("tides", commit(from_ms=5), 5)
    with pytest.raises(JobFailure, match="--from cannot be changed"):
        require_same_start("tides", commit(), 5)


# --- verify ---


def test_a_recreated_topic_does_not_continue_the_archive() -> None:
    require_same_topic(None, UUID(int=5))
    require_same_topic(commit(), UUID(int=5))
    require_same_topic(commit(), None)
    require_same_topic(commit(topic_id=None), UUID(int=6))
    with pytest.raises(JobFailure, match="was deleted and re-created; use another folder"):
        require_same_topic(commit(), UUID(int=6))


def test_older_manifests_have_no_topic_id() -> None:
    old = json.loads(commit().to_text())
    del old["topic_id"]
    assert read_commit(json.dumps(old), "x") == commit(topic_id=None)
    assert read_commit(commit(topic_id=None).to_text(), "x") == commit(topic_id=None)


def test_small_segments_share_a_task_and_large_ones_are_single() -> None:
    sizes = [900, 10, 20, 30, 800, 40]
    segments = [copy_start(number, number, number, size_bytes=size) for number, size in enumerate(sizes)]
    groups = [[one.segment_size_bytes for one in group] for group in group_segments(segments, 3, 10_000)]
    assert sorted(map(sum, groups)) == [100, 800, 900]
    assert [sum(group) for group in groups][:2] == [900, 800]
    assert len(group_segments(segments, 100, 10_000)) == len(sizes)
    assert len(group_segments(segments, 1, 600)) == 3
    assert group_segments([], 8) == []


# --- stats ---


def test_partitions_without_records_count_for_the_skew() -> None:
    counts = Counts(records=9, key_bytes=9, value_bytes=9)
    by_topic = partition_stats({ZERO: 0, ONE: 3}, {ZERO: 9, ONE: 3}, {ZERO: counts}, {ZERO: (2, 70)})
    report = topic_stats("tides", counts, by_topic["tides"], [], [])
    assert (report.skew_records, report.skew_bytes, report.out_of_order) == (2.0, 2.0, 2)
    assert [(one.partition, one.counts.records, one.step_back_ms_max) for one in report.partitions] == [
        (0, 9, 70),
        (1, 0, 0),
    ]
    assert (skew([5, 5]), skew([0, 0]), skew([])) == (1.0, None, None)


# --- shared parts ---


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("0", 0),
        ("2023-11-14", 1_699_920_000_000),
        ("20231114", 1_699_920_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        (" 2023-11-14T22:13:20.125Z ", 1_700_000_000_125),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_times_are_read_in_common_formats(text: str, time_ms: int) -> None:
    assert read_time_ms("--from", text) == time_ms


@pytest.mark.parametrize("text", ["yesterday", "1969-12-31T23:59:59.999Z", "1969-12-31", str(2**63)])
def test_an_invalid_time_is_refused_with_its_option(text: str) -> None:
    """For brokers, -1 and other negative times mean ends of the log."""
    with pytest.raises(OptionError, match=f"^Invalid option: --to='{text}'; expected a date"):
        read_time_ms("--to", text)


def test_times_are_shown_as_dates_where_possible() -> None:
    """Some producers write microseconds, which gives the year 55840."""
    assert time_text(1_700_000_000_000_125) == "1700000000000125 ms"
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    assert time_text(1_700_000_000_125) == "2023-11-14T22:13:20.125Z"


def test_options_set_by_jobs_are_refused() -> None:
    with pytest.raises(OptionError, match="option StartingOffsets is set by the job"):
        TopicSource(servers="a:1", topics=("tides",), options={"StartingOffsets": "latest"})


WORKER_ERROR = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted.
Traceback (most recent call last):
  File "pyspark/worker.py", line 1, in main
    raise DataLossError(loss)
tidelog.spark_connector.planning.data_loss.DataLossError: tides-0 should be read from offset 3, it begins at 7
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER_ERROR, "tides-0 should be read from offset 3, it begins at 7"),
        (
            "[UNRESOLVED_COLUMN] A column `v` cannot be resolved. line 1 pos 7;\n'Project",
            "A column `v` cannot be resolved. line 1 pos 7;",
        ),
        (
            "An error occurred.\n: java.io.IOException: No space left on device\n\tat java",
            "No space left on device",
        ),
        (
            "org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat x\n"
            "Caused by: java.io.IOException: Failed to connect to /127.0.0.1:1\n"
            "Caused by: java.net.ConnectException: Connection refused\n",
            "Connection refused",
        ),
        ("\n", "no reason was given"),
    ],
)
def test_the_cause_is_extracted_from_sparks_message(text: str, cause: str) -> None:
    assert cause_in(text) == cause


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("sh: java: not found", None),
    ],
)
def test_java_versions_are_parsed(text: str, major: int | None) -> None:
    assert java_major(text) == major


def test_java_home_takes_precedence_over_the_path() -> None:
    assert java_command({"JAVA_HOME": "/opt/java", "PATH": ""}) == "/opt/java/bin/java"
    assert java_command({"PATH": "/nowhere"}) is None
    with pytest.raises(JobFailure, match=r"/nowhere/bin/java does not run .*install Java 17 or later"):
        require_java({"JAVA_HOME": "/nowhere"})
