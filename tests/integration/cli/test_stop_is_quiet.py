"""A normal stop is no problem: the nodes log nothing at WARNING while they stop."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.local_cluster.cluster import LocalCluster


async def use(servers: str) -> None:
    """Write in a transaction, and read and commit as a group."""
    async with (
        Producer(servers, transactional_id="till") as producer,
        Consumer(servers, group_id="harbour", auto_offset_reset="earliest") as consumer,
    ):
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("tides", b"high")
        consumer.subscribe(["tides"])
        while not await consumer.poll(timeout_ms=1_000):
            pass
        await consumer.commit()


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_normal_stop_logs_nothing_at_warning(nodes: int, tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "cluster", nodes)
    try:
        cluster.start()
        asyncio.run(use(cluster.bootstrap_servers))
        logs = [cluster.layout.node_folder(node.node_id) / "node.log" for node in cluster.layout.nodes]
        sizes = [log.stat().st_size for log in logs]
        cluster.stop()
        lines = [log.read_bytes()[size:].decode() for log, size in zip(logs, sizes, strict=True)]
    finally:
        cluster.remove()
    assert all("INFO" in each for each in lines)
    assert [line for each in lines for line in each.splitlines() if re.search(r"WARNING|ERROR", line)] == []
