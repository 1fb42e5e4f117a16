"""The metrics of a group coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.nodes.exposed_metrics import metric_samples
from tests.support.waiting import wait_until
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

PREFIX = "kafka_coordinator_group_groupmetadatamanager_"


def read(metrics: BrokerMetrics) -> dict[str, float]:
    return {name: value for name, value in metric_samples(metrics, PREFIX).items() if value}


def test_groups_are_counted_by_their_states() -> None:
    with EmbeddedCluster() as cluster:

        async def join_and_leave() -> dict[str, float]:
            async with Admin(cluster.bootstrap_servers) as admin:
                await admin.create_topic("tides", 1)
            async with Consumer(cluster.bootstrap_servers, group_id="harbour") as consumer:
                consumer.subscribe(["tides"])
                while not consumer.assignment():
                    await consumer.poll(timeout_ms=100)
                return cluster.run(lambda node: read(node.metrics))

        assert asyncio.run(join_and_leave()) == {"numgroups": 1, "numgroupsstable": 1}
        assert cluster.run(lambda node: read(node.metrics)) == {"numgroups": 1, "numgroupsempty": 1}


def test_groups_are_counted_by_their_protocol() -> None:
    with EmbeddedCluster() as cluster:

        async def join() -> str:
            async with Admin(cluster.bootstrap_servers) as admin:
                await admin.create_topic("tides", 1)
            options: dict[str, Any] = {"group_id": "harbour", "group_protocol": "consumer"}
            async with Consumer(cluster.bootstrap_servers, **options) as consumer:
                consumer.subscribe(["tides"])
                while not consumer.assignment():
                    await consumer.poll(timeout_ms=100)
                return cluster.run(lambda node: Exposition(node.metrics).text()[0].decode())

        text = asyncio.run(join())
        prefix = "kafka_server_group_coordinator_metrics_"
        assert f'{prefix}groups{{protocol="consumer"}} 1.0' in text
        assert f'{prefix}groups{{protocol="classic"}} 0.0' in text
        assert f'{prefix}consumer_groups{{state="stable"}} 1.0' in text
        assert f"{prefix}consumer_group_rebalance_total 1.0" in text
        assert f"{prefix}streams_group_rebalance_total 0.0" in text


def lags(metrics: BrokerMetrics) -> dict[str, float]:
    return metric_samples(metrics, "tidelog_group_")


def commit_of_two(cluster: EmbeddedCluster) -> None:
    """Produce three records to a topic, and commit the offset 2 for the group harbour."""
    cluster.create_topics(["tides"])

    async def produce_and_commit() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            for value in (b"1", b"2", b"3"):
                await producer.send("tides", value)
        async with Consumer(cluster.bootstrap_servers, group_id="harbour") as consumer:
            await consumer.commit({TopicPartition("tides", 0): 2})

    asyncio.run(produce_and_commit())


def test_the_lag_of_a_group_is_reported_until_its_topic_is_deleted() -> None:
    with EmbeddedCluster() as cluster:
        commit_of_two(cluster)
        assert cluster.run(lambda node: lags(node.metrics)) == {
            "committed_offset": 2,
            "lag": 1,
            "offsets_without_metrics": 0,
        }

        async def delete() -> None:
            async with Admin(cluster.bootstrap_servers) as admin:
                await admin.delete_topics(["tides"])

        asyncio.run(delete())
        wait_until(lambda: "lag" not in cluster.run(lambda node: lags(node.metrics)))


def test_offsets_over_the_limit_are_counted_and_have_no_metrics() -> None:
    with EmbeddedCluster(config={"metrics.group.offsets.max": "0"}) as cluster:
        commit_of_two(cluster)
        assert cluster.run(lambda node: lags(node.metrics)) == {"offsets_without_metrics": 1}
