"""The state of a cluster by network requests: leaders, active controller, in-sync replicas."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.protocol.errors import KafkaError

ASK_TIMEOUT_MS = 1_000
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """A topic as one node describes it."""

    leaders: dict[int, int]
    in_sync: dict[int, tuple[int, ...]]
    replicas: dict[int, tuple[int, ...]]

    @property
    def is_whole(self) -> bool:
        """Return whether every partition has a leader and every replica is in sync."""
        return all(
            leader >= 0 and set(self.in_sync[index]) == set(self.replicas[index])
            for index, leader in self.leaders.items()
        )


class Watch:
    """Queries the nodes without a fault."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    async def seen(self, without: int | None = None) -> Seen | None:
        """Return the topic as described by a node other than `without`; None if no node responds in time."""
        for place in self._cluster.layout.nodes:
            if place.node_id == without or not self._cluster.nodes[place.node_id].is_running:
                continue
            try:
                async with asyncio.timeout(2 * ASK_TIMEOUT_MS / 1000):
                    return await self._ask(place.address)
            except (KafkaError, OSError, TimeoutError):
                continue
        return None

    async def controller(self) -> int | None:
        """Return the active controller as the quorum describes it; None if unknown."""
        for place in self._cluster.layout.nodes:
            try:
                async with asyncio.timeout(2 * ASK_TIMEOUT_MS / 1000):
                    async with self._admin(place.address) as admin:
                        return (await admin.describe_metadata_quorum()).leader_id
            except (KafkaError, OSError, TimeoutError):
                continue
        return None

    async def until_led_without(self, node_id: int, timeout_s: float) -> float:
        """Return the seconds until every partition has a leader other than `node_id`; TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                seen = await self.seen(without=node_id)
                if seen is not None and all(leader not in (node_id, -1) for leader in seen.leaders.values()):
                    return time.monotonic() - began
                await asyncio.sleep(POLL_S)

    async def until_whole(self, timeout_s: float) -> float:
        """Return the seconds until every partition has all replicas in sync; TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                seen = await self.seen()
                if seen is not None and seen.is_whole:
                    return time.monotonic() - began
                await asyncio.sleep(POLL_S)

    def _admin(self, address: str) -> Admin:
        return Admin(request_timeout_ms=ASK_TIMEOUT_MS, **self._cluster.node_client_settings(address).tidelog)

    async def _ask(self, address: str) -> Seen:
        async with self._admin(address) as admin:
            topic = (await admin.describe_topics([self._topic]))[self._topic]
        if isinstance(topic, KafkaError):
            raise topic
        places = topic.partitions
        return Seen(
            {each.partition: each.leader for each in places},
            {each.partition: tuple(each.in_sync_replicas) for each in places},
            {each.partition: tuple(each.replicas) for each in places},
        )
