"""Queries the state of a cluster: leaders, active controller, in-sync replicas."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.protocol.errors import KafkaError

REQUEST_TIMEOUT_MS = 1_000
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as one node describes it."""

    leaders: dict[int, int]
    in_sync: dict[int, tuple[int, ...]]
    replicas: dict[int, tuple[int, ...]]

    @property
    def is_in_sync(self) -> bool:
        """Return whether every partition has a leader and every replica is in sync."""
        return all(
            leader >= 0 and set(self.in_sync[index]) == set(self.replicas[index])
            for index, leader in self.leaders.items()
        )


class ClusterObserver:
    """Queries the nodes that have no fault."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    async def topic_state(self, without: int | None = None) -> TopicState | None:
        """Return the topic as described by a node other than `without`; None if none responds in time."""
        for node in self._cluster.layout.nodes:
            if node.node_id == without or not self._cluster.nodes[node.node_id].is_running:
                continue
            try:
                async with asyncio.timeout(2 * REQUEST_TIMEOUT_MS / 1000):
                    return await self._describe_topic(node.address)
            except (KafkaError, OSError, TimeoutError):
                continue
        return None

    async def controller(self) -> int | None:
        """Return the active controller as the quorum describes it; None if unknown."""
        for node in self._cluster.layout.nodes:
            try:
                async with asyncio.timeout(2 * REQUEST_TIMEOUT_MS / 1000):
                    async with self._admin(node.address) as admin:
                        return (await admin.describe_metadata_quorum()).leader_id
            except (KafkaError, OSError, TimeoutError):
                continue
        return None

    async def wait_until_led_without(self, node_id: int, timeout_s: float) -> float:
        """Wait until all leaders are other nodes than `node_id`; return the seconds or raise TimeoutError."""
        start_s = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                topic_state = await self.topic_state(without=node_id)
                if topic_state is not None and all(
                    leader not in (node_id, -1) for leader in topic_state.leaders.values()
                ):
                    return time.monotonic() - start_s
                await asyncio.sleep(POLL_S)

    async def wait_until_in_sync(self, timeout_s: float) -> float:
        """Wait until all replicas are in sync; return the seconds or raise TimeoutError."""
        start_s = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                topic_state = await self.topic_state()
                if topic_state is not None and topic_state.is_in_sync:
                    return time.monotonic() - start_s
                await asyncio.sleep(POLL_S)

    def _admin(self, address: str) -> Admin:
        return Admin(
            request_timeout_ms=REQUEST_TIMEOUT_MS, **self._cluster.node_client_settings(address).tidelog
        )

    async def _describe_topic(self, address: str) -> TopicState:
        async with self._admin(address) as admin:
            topic = (await admin.describe_topics([self._topic]))[self._topic]
        if isinstance(topic, KafkaError):
            raise topic
        places = topic.partitions
        return TopicState(
            {each.partition: each.leader for each in places},
            {each.partition: tuple(each.in_sync_replicas) for each in places},
            {each.partition: tuple(each.replicas) for each in places},
        )
