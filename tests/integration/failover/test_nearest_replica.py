"""KIP-392: a consumer with a rack reads from the replica in its rack, and continues when that node fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from tests.support.nodes.three_nodes import TIMEOUT_S, ThreeNodes, read_values
from tests.support.waiting import wait_until, wait_until_passes
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.testing.embedded import EmbeddedCluster

CONFIG = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@contextmanager
def three_racks() -> Iterator[tuple[EmbeddedCluster, ThreeNodes, int]]:
    """Return nodes 1 to 3 in separate racks, with partition 0 of tides, and a node that is not its leader."""
    with EmbeddedCluster(nodes=3, config=CONFIG, has_racks=True) as cluster:
        nodes = ThreeNodes(cluster)
        wait_until(lambda: nodes.brokers() == {1, 2, 3}, timeout_s=TIMEOUT_S)
        nodes.create_topic("tides", 1)
        leader = nodes.partition("tides").leader
        yield cluster, nodes, next(node for node in (1, 2, 3) if node != leader)


def test_a_consumer_reads_from_the_replica_in_its_rack_until_it_fails() -> None:
    with three_racks() as (cluster, nodes, near):
        first = [f"first {number}" for number in range(500)]
        nodes.produce("tides", first, 1)
        consumer = Consumer(
            {
                "bootstrap.servers": nodes.servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "client.rack": f"rack-{near}",
                "log_level": 0,
            }
        )
        try:

            def read_nearby() -> None:
                before = cluster.run(lambda node: node.services.traffic.bytes_out, near)
                consumer.assign([TopicPartition("tides", 0, 0)])
                assert read_values(consumer, 500) == first
                assert cluster.run(lambda node: node.services.traffic.bytes_out, near) > before

            # A replica lags behind while its node is not scheduled: then the leader does not redirect to it.
            wait_until_passes(read_nearby)
            cluster.kill_node(near)
            second = [f"second {number}" for number in range(500)]
            nodes.produce("tides", second, 1)
            assert read_values(consumer, 500) == second
        finally:
            consumer.close()


def test_spark_reads_from_the_replica_in_its_rack_until_it_fails() -> None:
    """Tasks of Spark read with kafka.client.rack: the leader redirects them without returning a record."""
    with three_racks() as (cluster, nodes, near):
        values = [f"value {number}" for number in range(500)]
        nodes.produce("tides", values, 1)

        async def read(dies_after: int | None = None) -> list[str]:
            reader = PartitionReader(
                nodes.servers,
                ("tides", 0),
                client_rack=f"rack-{near}",
                max_partition_fetch_bytes=500,
                default_api_timeout_ms=10_000,
            )
            values: list[str] = []
            async with reader:
                async for record in reader.records():
                    if len(values) == dies_after:
                        await asyncio.to_thread(cluster.kill_node, near)
                    values.append((record.value or b"").decode())
            return values

        def read_nearby() -> None:
            before = cluster.run(lambda node: node.services.traffic.bytes_out, near)
            assert asyncio.run(read()) == values
            assert cluster.run(lambda node: node.services.traffic.bytes_out, near) > before

        # A replica lags behind while its node is not scheduled: then the leader does not redirect to it.
        wait_until_passes(read_nearby)
        assert asyncio.run(read(dies_after=100)) == values
