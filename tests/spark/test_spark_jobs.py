"""The jobs of `tidelog spark` from end to end: a real local Spark and a real tiered broker."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.paths import ROOT
from tests.support.spark.local_spark import QUICK_JVM, require_java
from tests.support.spark.topics import Sent, create_topic, produce, rows_by_offset, varied_records
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.jobs.archive import archived_files
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.jobs.folders import Folder
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

COMMAND = [sys.executable, "-m", "tidelog.cli.main", "spark"]
TOPIC = "tides"
PATIENCE_S = 300
DAY_MS = 86_400_000
KEYS = (b"north", b"south", b"north", None, "gr\u00fcn".encode(), b"north")


def skewed_records(count: int, seed: int) -> list[Sent]:
    """Return records of three days, every hundredth before the previous one, with few keys and tombstones."""
    records = varied_records(count, 500, seed)
    return [
        one._replace(
            key=KEYS[number % len(KEYS)],
            timestamp_ms=one.timestamp_ms
            + 3 * DAY_MS * number // count
            - (200_000 if number % 100 == 99 else 0),
        )
        for number, one in enumerate(records)
    ]


SENT = {0: skewed_records(6000, 1), 1: skewed_records(2500, 2), 2: []}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_java()
    with EmbeddedCluster(tiered=True) as running:
        tiered = TieredTopics(running)
        tiered.create(TOPIC, partitions=3)
        for partition, records in SENT.items():
            produce(running.bootstrap_servers, TOPIC, records, partition=partition)
        for partition in (0, 1):
            tiered.wait_until_tiered(TOPIC, partition)
        create_topic(running.bootstrap_servers, "neap")
        yield running


def job(cluster: EmbeddedCluster, *arguments: str) -> Any:
    """Return the document that a job prints; the job must succeed without a warning."""
    text = tidelog_output("spark", *arguments, "--json", bootstrap=cluster.bootstrap_servers)
    return json.loads(text)


def read_archive(spark: SparkSession, output: Path) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of an archive, by partition in log order; each offset occurs at most once."""
    rows = spark.read.parquet(str(output)).toArrow().to_pylist()
    offsets = [(row["partition"], row["offset"]) for row in rows]
    assert len(offsets) == len(set(offsets))
    assert {row["topic"] for row in rows} == {TOPIC}
    assert all(row["date"] == row["timestamp"].date() for row in rows)
    return {
        partition: rows_by_offset(row for row in rows if row["partition"] == partition) for partition in SENT
    }


EXPECTED = {partition: [one.row() for one in records] for partition, records in SENT.items()}


# --- archive ---


@pytest.mark.long
def test_an_archive_continues_after_kill_9_with_each_record_once(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    output = tmp_path / "archive"
    command = [*COMMAND, "archive", TOPIC, str(output)]
    quick = ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
    process = subprocess.Popen(
        [*command, "--commit-records", "400", *quick, "-b", cluster.bootstrap_servers],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    commits = output / "_tidelog" / TOPIC / "commits"
    try:
        wait_until(
            lambda: process.poll() is not None or (commits / "000000000.json").exists(), timeout_s=PATIENCE_S
        )
    finally:
        # The JVM of the job is killed, too.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = len(list(commits.glob("*.json")))
    assert 1 <= before < 22
    result = job(cluster, "archive", TOPIC, str(output))
    assert result["commits"] == [before]
    assert (
        0
        < result["rows"]
        == sum(map(len, EXPECTED.values()))
        - sum(json.loads((commits / f"{number:09d}.json").read_text())["rows"] for number in range(before))
    )
    assert read_archive(spark, output) == EXPECTED
    assert len(list(output.glob("topic=tides/date=*"))) == 4
    listed = {Path(path.removeprefix("file:")) for path in archived_files(spark, str(output), TOPIC)}
    assert listed == set(output.rglob("*.parquet"))


def test_files_of_a_commit_without_manifest_are_replaced(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "archive"
    first = job(cluster, "archive", TOPIC, str(output), "--to", "1700000000000")
    assert (first["commits"], first["rows"]) == ([], 0)

    def crash(folder: Folder, path: str, text: str) -> None:
        raise JobFailure("the machine has failed")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", crash)
        line = tidelog_failure("spark", "archive", TOPIC, str(output), bootstrap=cluster.bootstrap_servers)
    assert line == "tidelog: the machine has failed"
    left = set(output.rglob("*.parquet"))
    assert left and archived_files(spark, str(output), TOPIC) == []
    assert job(cluster, "archive", TOPIC, str(output))["rows"] == 8500
    assert read_archive(spark, output) == EXPECTED
    assert not (output / "_tidelog" / TOPIC / "staging").exists()


def test_an_archive_of_a_time_range_continues_to_a_later_end(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    output = tmp_path / "archive"
    span = ["archive", TOPIC, str(output), "--from", "2023-11-15"]
    first = job(cluster, *span, "--to", "2023-11-16")
    assert job(cluster, *span, "--to", "2023-11-16")["commits"] == []
    second = job(cluster, "archive", TOPIC, str(output), "--to", "2023-11-17")
    assert (first["commits"], second["commits"]) == ([0], [1])
    begin, end = 1_700_006_400_000, 1_700_006_400_000 + 2 * DAY_MS
    expected = {}
    for partition, records in SENT.items():
        late = [number for number, one in enumerate(records) if one.timestamp_ms >= end]
        early = [number for number, one in enumerate(records) if one.timestamp_ms >= begin]
        expected[partition] = EXPECTED[partition][early[0] : late[0]] if records else []
    assert read_archive(spark, output) == expected
    for one in second["partitions"]:
        assert one["end_offset"] <= len(SENT[one["partition"]])
    line = tidelog_failure(*("spark", *span[:-1], "2023-11-14"), bootstrap=cluster.bootstrap_servers)
    assert "--from cannot be changed" in line


def test_an_archive_read_from_the_bucket_is_equal(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    output = tmp_path / "archive"
    bucket = ["-C", "storage.backend.class=filesystem", "-C", f"storage.root={cluster.tier_dir}"]
    tiered = job(cluster, "archive", TOPIC, str(output), "--tier", "offline", *bucket)
    assert 0 < tiered["rows"] < 8500
    rest = job(cluster, "archive", TOPIC, str(output), "--tier", "direct", *bucket)
    assert tiered["rows"] + rest["rows"] == 8500
    assert read_archive(spark, output) == EXPECTED


def test_records_deleted_before_archiving_are_reported_or_skipped(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    servers, output = cluster.bootstrap_servers, str(tmp_path / "archive")
    create_topic(servers, "shoal")
    produce(servers, "shoal", varied_records(30, 20))
    assert job(cluster, "archive", "shoal", output)["rows"] == 30
    produce(servers, "shoal", varied_records(30, 20))
    asyncio.run(delete_before(servers, TopicPartition("shoal", 0), 45))
    line = tidelog_failure("spark", "archive", "shoal", output, bootstrap=servers)
    assert line.startswith("tidelog: shoal-0 should be read from offset 30")
    skipped = job(cluster, "archive", "shoal", output, "-o", "failOnDataLoss=false")
    assert (skipped["commits"], skipped["rows"]) == ([1], 15)
    assert skipped["partitions"] == [{"partition": 0, "start_offset": 30, "end_offset": 60}]


async def delete_before(servers: str, partition: TopicPartition, offset: int) -> None:
    async with Admin(servers) as admin:
        await admin.delete_records({partition: offset})


def test_a_recreated_longer_topic_is_not_appended_to_the_archive(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    servers, output = cluster.bootstrap_servers, str(tmp_path / "archive")
    create_topic(servers, "spring")
    produce(servers, "spring", varied_records(30, 60))
    assert job(cluster, "archive", "spring", output)["rows"] == 30
    asyncio.run(delete_topic(servers, "spring"))
    create_topic(servers, "spring")
    produce(servers, "spring", varied_records(80, 60))
    line = tidelog_failure("spark", "archive", "spring", output, bootstrap=servers)
    assert "the topic was deleted and re-created; use another folder for it" in line


async def delete_topic(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        assert (await admin.delete_topics([topic]))[topic] is None


# --- transform ---


def test_a_transformation_continues_from_its_checkpoint_with_equal_output(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    for name in ("ebb", "flood"):
        create_topic(servers, name, 2)
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
    query = (
        "SELECT key, concat(unhex('2b'), value) AS value, headers, partition, timestamp FROM source "
        "WHERE key IS NOT NULL"
    )
    sent = varied_records(400, 60)
    produce(servers, "ebb", sent[:300], partition=1)
    first = job(cluster, "transform", "ebb", "flood", "--sql", query, *checkpoint)
    produce(servers, "ebb", sent[300:], partition=1)
    second = job(cluster, "transform", "ebb", "flood", "--sql", query, *checkpoint)
    assert (first["records_read"], second["records_read"]) == (300, 100)
    assert json.loads(second["end_offsets"]) == {"ebb": {"0": 0, "1": 400}}
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", servers)
    rows = reader.options(subscribe="flood", includeHeaders="true").load().toArrow().to_pylist()
    kept = [one for one in sent if one.key is not None]
    assert first["records_written"] + second["records_written"] == len(kept)
    assert {row["partition"] for row in rows} == {1}
    assert rows_by_offset(rows) == [
        one._replace(value=None if one.value is None else b"+" + one.value).row() for one in kept
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT valu FROM source", "A column, variable, or function parameter with name `valu` cannot be"),
        ("SELECT key FROM source", "--sql: there is no column 'value' (string or binary) among key"),
        ("SELECT offset AS value FROM source", "--sql: column 'value' has type bigint"),
        ("SELECT 'x' AS value", "--sql reads nothing FROM source"),
        ("SELEKT", "Syntax error at or near 'SELEKT'"),
    ],
)
def test_invalid_sql_is_refused_in_one_line(
    query: str, words: str, spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    line = tidelog_failure(
        *("spark", "transform", TOPIC, "neap", "--sql", query, "--checkpoint", str(tmp_path)),
        bootstrap=cluster.bootstrap_servers,
    )
    assert words in line


# --- stats ---


def test_statistics_equal_those_of_plain_python(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    (report,) = job(cluster, "stats", TOPIC, "--top", "2")
    everything = [one for records in SENT.values() for one in records]
    assert report["counts"] == count_text(everything)
    assert [one["counts"] for one in report["partitions"]] == [
        count_text(records) for records in SENT.values()
    ]
    assert [one["out_of_order"] for one in report["partitions"]] == [60, 25, 0]
    assert report["skew_records"] == round(6000 * 3 / 8500, 3)
    records: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    for one in everything:
        if one.key is not None:
            records[one.key] += 1
            sizes[one.key] += size_of(one)
    for order, largest in (("records", records), ("bytes", sizes)):
        assert report[f"top_keys_by_{order}"] == [
            {"key": key.decode(), "records": records[key], "size_bytes": sizes[key]}
            for key, _ in sorted(largest.items(), key=lambda item: (-item[1], item[0]))[:2]
        ]
    text = tidelog_output("spark", "stats", TOPIC, bootstrap=cluster.bootstrap_servers)
    assert "tides: the largest partition has 2.118 x the mean in records" in text


def size_of(one: Sent) -> int:
    return len(one.key or b"") + len(one.value or b"")


def count_text(records: list[Sent]) -> dict[str, Any]:
    """Compute the same figures record by record."""
    sizes = sorted(map(size_of, records))
    times = [one.timestamp_ms for one in records]
    cuts = (
        [statistics.quantiles(sizes, n=100, method="inclusive")[n - 1] for n in (50, 90, 99)] if sizes else []
    )
    return {
        "records": len(records),
        "key_bytes": sum(len(one.key or b"") for one in records),
        "value_bytes": sum(len(one.value or b"") for one in records),
        "null_keys": sum(one.key is None for one in records),
        "tombstones": sum(one.value is None for one in records),
        "distinct_keys": len({one.key for one in records} - {None}),
        "sizes": dict(zip(("p50", "p90", "p99", "max"), [*map(int, cuts), sizes[-1]], strict=True))
        if sizes
        else dict.fromkeys(("p50", "p90", "p99", "max")),
        "first_timestamp_ms": min(times, default=None),
        "last_timestamp_ms": max(times, default=None),
    }


# --- signals ---


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_job_ends_without_a_traceback(
    number: int, code: int, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """PySpark's handler of ctrl-C calls the JVM during another call, which causes tracebacks."""
    quick = ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
    process = subprocess.Popen(
        [*COMMAND, "stats", TOPIC, *quick, "-b", cluster.bootstrap_servers],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        # The JVM runs, and begins a query.
        wait_until(lambda: any(tmp_path.glob("tidelog-spark-*/local/blockmgr-*")), timeout_s=PATIENCE_S)
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, output, errors) == (code, b"", b"")


# --- verify ---


def verify(cluster: EmbeddedCluster, bucket: Path, *arguments: str, code: int) -> Any:
    options = ["-C", "storage.backend.class=filesystem", "-C", f"storage.root={bucket}", "--json"]
    result = tidelog("spark", "verify", *arguments, *options, bootstrap=cluster.bootstrap_servers)
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return json.loads(result.stdout)


def test_verify_finds_a_flipped_byte_a_missing_object_and_a_corrupt_index(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    whole = verify(cluster, cluster.tier_dir, TOPIC, code=0)
    assert whole["findings"] == []
    assert (whole["partitions"], whole["segments"]) == (3, len(list(cluster.tier_dir.rglob("*.log"))))
    assert whole["bytes_read"] == sum(path.stat().st_size for path in cluster.tier_dir.rglob("*.log"))
    bucket = tmp_path / "bucket"
    shutil.copytree(cluster.tier_dir, bucket)
    damaged, deleted, log = sorted(bucket.rglob("*.log"))[:3]
    flip(damaged, damaged.stat().st_size // 2)
    deleted.unlink()
    flip(log.with_suffix(".indexes"), 0)
    findings = verify(cluster, bucket, TOPIC, code=1)["findings"]
    assert sorted(one["kind"] for one in findings) == ["bad_batch", "bad_index", "missing_object"]
    offline = verify(cluster, bucket, "--all", "--offline", code=1)["findings"]
    assert {one["kind"] for one in findings} <= {one["kind"] for one in offline}


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x80
    path.write_bytes(data)
