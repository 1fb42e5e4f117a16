"""Spark with a cluster that is secured with SASL_SSL and SCRAM: local and remote records, and the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.tier.tiered_topics import TIERED
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ListedOffset, OffsetSpec
from tidelog.clients.producer.producer import Producer
from tidelog.local_cluster.security import Security
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

RECORDS = 3_000
VALUE = b"v" * 1_000
WHERE = TopicPartition("letters", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a tiered cluster whose topic `letters` is partly in remote storage only."""
    security = Security(users={"admin": "canary-of-admin"}, super_users=["admin"])
    with EmbeddedCluster(tiered=True, security=security) as running:
        asyncio.run(fill(running))
        wait_until(lambda: asyncio.run(local_start(running)) > 0, "remote records")
        yield running


async def fill(cluster: EmbeddedCluster) -> None:
    options = cluster.client_settings().tidelog
    async with Admin(**options) as admin:
        await admin.create_topic("letters", 1, configs=TIERED)
    async with Producer(**options) as producer:
        for _ in range(RECORDS):
            await producer.send("letters", VALUE, partition=0)


async def local_start(cluster: EmbeddedCluster) -> int:
    async with Admin(**cluster.client_settings().tidelog) as admin:
        listed_offset = (await admin.list_offsets({WHERE: OffsetSpec.EARLIEST_LOCAL}))[WHERE]
    assert isinstance(listed_offset, ListedOffset)
    return listed_offset.offset


def kafka_options(cluster: EmbeddedCluster, **changes: str) -> dict[str, str]:
    properties = {**cluster.client_settings().properties, **changes}
    return {f"kafka.{key}": text for key, text in properties.items()}


@pytest.mark.parametrize("tier", ["broker", "direct"])
def test_all_records_are_read_without_showing_the_password(
    spark: SparkSession, cluster: EmbeddedCluster, tier: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = {
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(cluster.tier_dir),
    }
    options = {**kafka_options(cluster), **(store if tier == "direct" else {})}
    frame = spark.read.format("tidelog").options(subscribe="letters", tier=tier, **options).load()
    assert frame.count() == RECORDS
    frame.explain(True)
    assert "canary" not in capsys.readouterr().out


def test_records_are_written(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    rows = spark.range(10).selectExpr("cast(id as string) as value")
    rows.write.format("tidelog").mode("append").options(topic="written", **kafka_options(cluster)).save()
    frame = spark.read.format("tidelog").options(subscribe="written", **kafka_options(cluster)).load()
    assert frame.count() == 10


def test_a_wrong_password_is_reported_without_the_password(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    jaas_config = cluster.client_settings().properties["sasl.jaas.config"].replace("canary", "canary-wrong")
    options = kafka_options(cluster, **{"sasl.jaas.config": jaas_config})
    with pytest.raises(PySparkException, match=r"(?i)authentication") as failed:
        spark.read.format("tidelog").options(subscribe="letters", **options).load().count()
    assert "canary" not in str(failed.value)
