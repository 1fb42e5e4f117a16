"""The metrics of a group coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.nodes.exposed_metrics import metric_samples
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
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
        assert f'{prefix}group_count{{protocol="consumer"}} 1.0' in text
        assert f'{prefix}group_count{{protocol="classic"}} 0.0' in text
        assert f'{prefix}consumer_group_count{{state="stable"}} 1.0' in text
