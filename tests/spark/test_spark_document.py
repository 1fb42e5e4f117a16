"""The Python programs of docs/spark.md, in the order of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.support.document_commands import code_blocks
from tests.support.paths import ROOT
from tests.support.spark.topics import numbered_records, produce
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

RECORDS: Final = 600
SMALL_SEGMENTS: Final = {"internal.segment.bytes": "10000"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


def run(program: str, changes: dict[str, str], **names: Any) -> dict[str, Any]:
    """Run a program with these texts instead of the addresses and folders of the page; return its names."""
    for text, replacement in changes.items():
        assert text in program
        program = program.replace(text, replacement)
    exec(compile(program, "docs/spark.md", "exec"), names)
    return names


def test_the_programs_of_the_page_read_and_write(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    first, cold, written = code_blocks(ROOT / "docs" / "spark.md", "python")
    topics = TieredTopics(cluster)
    topics.create("tides", SMALL_SEGMENTS)
    for first_number in range(0, RECORDS, RECORDS // 4):
        produce(cluster.bootstrap_servers, "tides", numbered_records(RECORDS // 4, first_number, size=50))
    topics.wait_until_tiered("tides")
    address = {"localhost:9092": cluster.bootstrap_servers}

    folders = {f'"{name}"': repr(str(tmp_path / name)) for name in ("rows", "checkpoint")}
    names = run(first, address | folders)
    assert names["spark"] is spark
    assert names["cold_and_hot"].count() == RECORDS
    assert names["query"].awaitTermination(120)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == RECORDS

    # The bucket of this cluster is a folder.
    options = ('"rsm.config.storage.s3.bucket.name", "tides"', '"rsm.config.storage.s3.region", "eu-north-1"')
    folder = f'"rsm.config.storage.root", {str(cluster.tier_dir)!r}'
    bucket = {'"s3"': '"filesystem"', **dict.fromkeys(options, folder)}
    frame = run(f"frame = {cold}", bucket, spark=spark)["frame"]
    assert 0 < frame.count() < RECORDS

    cluster.create_topics(["reports"])
    tides = spark.createDataFrame([("Oslo", 12), ("Bergen", 7)], "city string, metres int")
    tides.createOrReplaceTempView("tides")
    run(written, address, spark=spark)
    reports = spark.read.format("tidelog").options(subscribe="reports")
    reports = reports.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()
    values = {row["value"] for row in reports.selectExpr("string(value) as value").collect()}
    assert values == {'{"city":"Oslo","metres":12}', '{"city":"Bergen","metres":7}'}
