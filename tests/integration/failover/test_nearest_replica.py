"""Consumers with racks read from the replica in their rack (KIP-392) and get partitions near it (KIP-881)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from confluent_kafka import Consumer, TopicPartition

from tests.support.nodes.three_nodes import ThreeNodes, read_values
from tests.support.waiting import TIMEOUT_S, eventually_returns, wait_until, wait_until_passes
from tidelog import Admin
from tidelog import Consumer as TidelogConsumer
from tidelog.clients.admin.types import NewTopic
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


async def test_members_of_a_group_get_the_partitions_whose_replicas_are_in_their_racks() -> None:
    with EmbeddedCluster(nodes=3, has_racks=True) as cluster:
        async with Admin(cluster.bootstrap_servers) as admin:
            replicas = {index: [1 + index % 3] for index in range(6)}
            await admin.create_topics([NewTopic(name="tides", replica_assignments=replicas)])
        consumers = {
            node_id: TidelogConsumer(
                cluster.bootstrap_servers, group_id="harbour", client_rack=f"rack-{node_id}"
            )
            for node_id in (3, 1, 2)
        }
        async with AsyncExitStack() as stack:
            for consumer in consumers.values():
                await stack.enter_async_context(consumer)
                consumer.subscribe(["tides"])

            async def poll_and_compare() -> None:
                await asyncio.gather(*(consumer.poll(50) for consumer in consumers.values()))
                for node_id, consumer in consumers.items():
                    near = [index for index, (replica,) in replicas.items() if replica == node_id]
                    assert sorted(partition.partition for partition in consumer.assignment()) == near

            await eventually_returns(poll_and_compare, tolerated=(AssertionError,))
