"""A cluster with many partitions: the time until they are created, and until they have new leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

from benchmarks.figures import Figure
from benchmarks.suites.effort import Effort
from benchmarks.suites.replication import VICTIM, WHOLE_WITHIN_S, three_nodes
from benchmarks.topic_watch import TopicWatch
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import ErrorCode, KafkaError

PARTITIONS = 2_000
TOPIC = "many"


def controller(effort: Effort) -> Iterator[Figure]:
    """Create a topic of many partitions with three replicas, kill a node, start it again.

    Failover uses the short timeouts of tests, the other measurements use Kafka's: while three nodes on two
    cores change the roles of thousands of partitions, they exceed the short timeouts, and elect controllers
    repeatedly.
    """
    count = int(PARTITIONS * effort.scale)
    with three_nodes() as cluster:
        watch = TopicWatch(cluster, TOPIC)
        asyncio.run(_create(cluster.bootstrap_servers, count))
        asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S))
        cluster.kill(VICTIM)
        taken = asyncio.run(watch.wait_until_led_without(VICTIM, WHOLE_WITHIN_S))
        yield Figure(name=f"failover of a node of {count:,} partitions", value=taken, unit="s")
    with three_nodes(timeouts={}) as cluster:
        watch = TopicWatch(cluster, TOPIC)
        began = perf_counter()
        asyncio.run(_create(cluster.bootstrap_servers, count))
        asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S))
        yield Figure(name=f"create {count:,} partitions, RF 3", value=perf_counter() - began, unit="s")
        cluster.kill(VICTIM)
        asyncio.run(watch.wait_until_led_without(VICTIM, WHOLE_WITHIN_S))
        yield Figure(
            name=f"start of a node with {count:,} partitions", value=cluster.start([VICTIM]), unit="s"
        )
        yield Figure(
            name="  until all its replicas are in sync",
            value=asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S)),
            unit="s",
        )


async def _create(servers: str, count: int) -> None:
    async with Admin(servers) as admin:
        try:
            await admin.create_topic(TOPIC, count, 3)
        except KafkaError as error:
            # The nodes were too busy with their creation to respond to the first attempt in time.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
