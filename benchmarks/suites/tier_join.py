"""An empty node joins a topic of 2 GiB: the copied bytes and the duration, tiered and not tiered.

`--scale 0.1` reduces the size of the topic. Three replicas of it and its remote segments are on one disk,
which needs four times its size.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.figures import Figure
from benchmarks.processes import BenchmarkError, run_load
from benchmarks.suites.effort import KIBIBYTE, MEBIBYTE, MEGA, Effort
from benchmarks.suites.replication import TIMEOUTS
from benchmarks.tiered_broker import HURRIED, TIERED
from benchmarks.topic_watch import TopicWatch
from tidelog.clients.admin.admin import Admin
from tidelog.demo.tier_view import Border, TierView
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.tiering import TIER_FOLDER, tiered_settings

TOPIC: Final = "history"
TOPIC_BYTES: Final = 2048 * MEBIBYTE
PARTITIONS: Final = 4
NODES: Final = 3
VICTIM: Final = 3
WHOLE_WITHIN_S: Final = 600.0
POLL_S: Final = 0.2
CONFIGS: Final = {**TIERED, "segment.bytes": str(32 * MEBIBYTE)}


class _JoinResult(NamedTuple):
    """The bytes on the node afterwards, and the seconds until the whole topic was in sync."""

    copied_bytes: int
    seconds: float


def tier_join(effort: Effort) -> Iterator[Figure]:
    """Measure bytes and seconds of the new replica, tiered and not tiered."""
    size_bytes = int(TOPIC_BYTES * effort.scale)
    tiered = _join(size_bytes, is_tiered=True)
    whole = _join(size_bytes, is_tiered=False)
    name = f"an empty node joins a topic of {size_bytes / MEBIBYTE:,.0f} MiB"
    for what, ours, reference, unit in (
        ("copied", tiered.copied_bytes / MEGA, whole.copied_bytes / MEGA, "MB"),
        ("until in sync", tiered.seconds, whole.seconds, "s"),
    ):
        yield Figure(
            name=f"{name}, {what}",
            value=ours,
            unit=unit,
            reference=reference,
            reference_name="not tiered",
            ratio=ours / reference,
        )


def _join(size_bytes: int, *, is_tiered: bool) -> _JoinResult:
    folder = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    settings = {**TIMEOUTS, **HURRIED, "num.partitions": str(PARTITIONS), "min.insync.replicas": "1"}
    cluster = LocalCluster.create(
        folder / "cluster", NODES, settings=tiered_settings(folder, NODES, settings)
    )
    view = TierView(cluster.layout, folder / TIER_FOLDER, TOPIC)
    try:
        cluster.start()
        configs = CONFIGS if is_tiered else {"segment.bytes": CONFIGS["segment.bytes"]}
        asyncio.run(_create(cluster, configs))
        run_load(
            "librdkafka",
            kind="fill",
            acks=-1,
            servers=cluster.bootstrap_servers,
            topic=TOPIC,
            message_bytes=KIBIBYTE,
            batch_bytes=MEBIBYTE // 2,
            partition_bytes=size_bytes // PARTITIONS,
        )
        watch = TopicWatch(cluster, TOPIC)
        asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S))
        if is_tiered:
            asyncio.run(_until_tiered(cluster, view))
        cluster.stop([VICTIM])
        cluster.wipe(VICTIM)
        began = perf_counter()
        cluster.start([VICTIM])
        asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S))
        return _JoinResult(view.on_disk(VICTIM).size_bytes, perf_counter() - began)
    finally:
        cluster.remove()
        shutil.rmtree(folder, ignore_errors=True)


async def _create(cluster: LocalCluster, configs: dict[str, str]) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.create_topic(TOPIC, PARTITIONS, configs=configs)


async def _until_tiered(cluster: LocalCluster, view: TierView) -> None:
    deadline = time.monotonic() + WHOLE_WITHIN_S
    async with Admin(cluster.bootstrap_servers) as admin:
        borders: list[Border] = []
        while len(borders) < PARTITIONS or not all(border.is_tiered for border in borders):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{TOPIC} was not in the tier within {WHOLE_WITHIN_S:.0f} s")
            await asyncio.sleep(POLL_S)
            borders = await view.borders(admin)
