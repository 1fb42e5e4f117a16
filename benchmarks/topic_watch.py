"""Measures the time until a topic has other leaders, or has all replicas in sync."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.clients.admin.admin import Admin
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.protocol.errors import KafkaError

REQUEST_TIMEOUT_MS: Final = 1_000
POLL_S: Final = 0.05

Partitions = Sequence[PartitionMetadata]


class TopicWatch:
    """Queries the running nodes of a cluster for one topic, one after the other until one responds."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    async def wait_until_led_without(self, node_id: int, timeout_s: float) -> float:
        """Return the seconds until nodes other than `node_id` lead every partition. Raise TimeoutError."""
        return await self._wait_until(
            lambda partitions: all(each.leader not in (node_id, -1) for each in partitions),
            timeout_s,
            without=node_id,
        )

    async def wait_until_in_sync(self, timeout_s: float) -> float:
        """Return the seconds until all replicas of every partition are in sync. Raise TimeoutError."""
        return await self._wait_until(
            lambda partitions: all(
                each.leader >= 0 and set(each.in_sync_replicas) == set(each.replicas) for each in partitions
            ),
            timeout_s,
        )

    async def _wait_until(
        self, condition: Callable[[Partitions], bool], timeout_s: float, without: int | None = None
    ) -> float:
        started = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                partitions = await self._partitions(without)
                if partitions is not None and condition(partitions):
                    return time.monotonic() - started
                await asyncio.sleep(POLL_S)

    async def _partitions(self, without: int | None) -> Partitions | None:
        """Return the partitions as the first node that responds describes them; None if no node does."""
        for place in self._cluster.layout.nodes:
            if place.node_id == without or not self._cluster.nodes[place.node_id].is_running:
                continue
            try:
                async with asyncio.timeout(2 * REQUEST_TIMEOUT_MS / 1000):
                    async with Admin(place.address, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
                        topic = (await admin.describe_topics([self._topic]))[self._topic]
            except (KafkaError, OSError, TimeoutError):
                continue
            if not isinstance(topic, KafkaError):
                return topic.partitions
        return None
