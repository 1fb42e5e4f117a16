"""What a cluster says of itself, asked over the network: who leads, who controls, who is in sync."""

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
    """A topic as one node tells it."""

    leaders: dict[int, int]
    in_sync: dict[int, tuple[int, ...]]
    replicas: dict[int, tuple[int, ...]]

    @property
    def is_whole(self) -> bool:
        """Whether every partition has a leader and every replica is in sync."""
        return all(
            leader >= 0 and set(self.in_sync[index]) == set(self.replicas[index])
            for index, leader in self.leaders.items()
        )


class Watch:
    """Asks the nodes that are not in the hands of a fault."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    async def seen(self, without: int | None = None) -> Seen | None:
        """The topic as told by some node other than `without`; None when nobody answers in time."""
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
        """The active controller by the quorum's own word; None when nobody knows."""
        for place in self._cluster.layout.nodes:
            try:
                async with asyncio.timeout(2 * ASK_TIMEOUT_MS / 1000):
                    async with Admin(place.address, request_timeout_ms=ASK_TIMEOUT_MS) as admin:
                        return (await admin.describe_metadata_quorum()).leader_id
            except (KafkaError, OSError, TimeoutError):
                continue
        return None

    async def until_led_without(self, node_id: int, timeout_s: float) -> float:
        """Seconds until every partition is led by a node other than `node_id`; TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                seen = await self.seen(without=node_id)
                if seen is not None and all(leader not in (node_id, -1) for leader in seen.leaders.values()):
                    return time.monotonic() - began
                await asyncio.sleep(POLL_S)

    async def until_whole(self, timeout_s: float) -> float:
        """Seconds until every partition has all its replicas in sync; TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(timeout_s):
            while True:
                seen = await self.seen()
                if seen is not None and seen.is_whole:
                    return time.monotonic() - began
                await asyncio.sleep(POLL_S)

    async def _ask(self, address: str) -> Seen:
        async with Admin(address, request_timeout_ms=ASK_TIMEOUT_MS) as admin:
            topic = (await admin.describe_topics([self._topic]))[self._topic]
        if isinstance(topic, KafkaError):
            raise topic
        places = topic.partitions
        return Seen(
            {each.partition: each.leader for each in places},
            {each.partition: tuple(each.in_sync_replicas) for each in places},
            {each.partition: tuple(each.replicas) for each in places},
        )
