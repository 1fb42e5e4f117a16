"""Three nodes on this machine: the cost of replication, the time of a failover, and of a new replica.

All nodes share the cores with the load, so the ratio to one node is that of one machine of this size,
not of three machines.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks.figures import Comparison, Figure
from benchmarks.file_memory import touch_file_memory
from benchmarks.processes import BrokerProcess, run_load
from benchmarks.suites.effort import KIBIBYTE, MEBIBYTE, MEGA, Effort, size_name
from benchmarks.topic_watch import TopicWatch
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.layout import QUICK_TIMEOUTS

THROUGHPUT_AT_LEAST = 0.25
# Readers do not get unreplicated records: with acks=1 they would count as missing.
ALL = -1
BATCH_BYTES = (16 * KIBIBYTE, MEBIBYTE)
CATCH_UP_BYTES = 400_000_000
FAILOVERS = 6
NODES = 3
WHOLE_WITHIN_S = 120.0
VICTIM = 3
TIMEOUTS = {
    **QUICK_TIMEOUTS,
    # Separate processes receive the fetches of the others in time although the timeout is short.
    "controller.quorum.fetch.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "leader.imbalance.check.interval.seconds": "10",
}


@contextmanager
def three_nodes(timeouts: Mapping[str, str] = TIMEOUTS, **settings: str) -> Iterator[LocalCluster]:
    """Run a cluster in an empty folder during the `with` block; remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    chosen = {
        **timeouts,
        "num.partitions": "4",
        **{key.replace("_", "."): text for key, text in settings.items()},
    }
    cluster = LocalCluster.create(folder / "cluster", NODES, settings=chosen)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()
        shutil.rmtree(folder, ignore_errors=True)


def replication(effort: Effort) -> Iterator[Figure]:
    """Measure produce with three replicas compared with one, failover, and catch-up of an empty replica."""
    for batch_bytes in BATCH_BYTES:
        rounds = [_produce_round(batch_bytes, effort.seconds) for _ in range(effort.rounds)]
        yield Comparison.of(rounds).figure(
            f"produce 1 KiB in {size_name(batch_bytes)} batches, RF 3, acks=all",
            "MB/s",
            "RF 1, acks=1",
            at_least=THROUGHPUT_AT_LEAST,
        )
    yield from _latency(effort)
    yield from _failover(max(2, int(FAILOVERS * effort.scale)))
    yield from _catch_up(int(CATCH_UP_BYTES * effort.scale))


def _produce_round(batch_bytes: int, seconds: float) -> tuple[float, float]:
    options = {
        "kind": "produce",
        "topic": "produce",
        "message_bytes": KIBIBYTE,
        "batch_bytes": batch_bytes,
        "seconds": seconds,
    }
    with three_nodes() as cluster:
        touch_file_memory()
        ours = run_load("librdkafka", servers=cluster.bootstrap_servers, acks=ALL, **options)
    with BrokerProcess({"num.partitions": "4"}) as broker:
        touch_file_memory()
        alone = run_load("librdkafka", servers=broker.address, acks=1, **options)
    return ours["bytes_per_s"] / MEGA, alone["bytes_per_s"] / MEGA


def _latency(effort: Effort) -> Iterator[Figure]:
    options = {"kind": "latency", "topic": "one", "message_bytes": 100, "seconds": effort.seconds}
    with three_nodes() as cluster, BrokerProcess() as broker:
        rounds = [
            (
                run_load("librdkafka", servers=cluster.bootstrap_servers, acks=ALL, **options),
                run_load("librdkafka", servers=broker.address, acks=1, **options),
            )
            for _ in range(effort.rounds)
        ]
    for percentile in ("p50", "p99"):
        compared = Comparison.of(
            (ours[f"{percentile}_us"], alone[f"{percentile}_us"]) for ours, alone in rounds
        )
        yield compared.figure(f"produce latency {percentile}, RF 3, acks=all", "us", "RF 1, acks=1")


def _failover(count: int) -> Iterator[Figure]:
    """Kill nodes one after the other; measure the time until their partitions have other leaders."""
    with three_nodes() as cluster:
        watch = TopicWatch(cluster, "failover")
        run_load(
            "librdkafka",
            kind="fill",
            acks=ALL,
            servers=cluster.bootstrap_servers,
            topic="failover",
            message_bytes=KIBIBYTE,
            batch_bytes=16 * KIBIBYTE,
            partition_bytes=MEBIBYTE,
        )
        taken = sorted(asyncio.run(_one_failover(cluster, watch, 1 + turn % NODES)) for turn in range(count))
    yield Figure(
        name="failover after kill -9, median", value=taken[len(taken) // 2], unit="s", note=f"of {count}"
    )
    yield Figure(name="failover after kill -9, maximum", value=taken[-1], unit="s")


async def _one_failover(cluster: LocalCluster, watch: TopicWatch, node_id: int) -> float:
    await watch.wait_until_in_sync(WHOLE_WITHIN_S)
    await asyncio.to_thread(cluster.kill, node_id)
    taken = await watch.wait_until_led_without(node_id, WHOLE_WITHIN_S)
    await asyncio.to_thread(cluster.start, [node_id])
    return taken


def _catch_up(size_bytes: int) -> Iterator[Figure]:
    """Measure the catch-up of an empty node with the same id, compared with a copy of the same files."""
    with three_nodes(min_insync_replicas="1") as cluster:
        watch = TopicWatch(cluster, "catch-up")
        run_load(
            "librdkafka",
            kind="fill",
            acks=ALL,
            servers=cluster.bootstrap_servers,
            topic="catch-up",
            message_bytes=KIBIBYTE,
            batch_bytes=MEBIBYTE,
            partition_bytes=size_bytes // 4,
        )
        asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S))
        cluster.stop([VICTIM])
        source = cluster.layout.data_folder(VICTIM)
        copied = perf_counter()
        shutil.copytree(source, cluster.layout.folder / "copy")
        copy_s = perf_counter() - copied
        cluster.wipe(VICTIM)
        # From the start of its process on: it begins to copy before clients know the node.
        began = perf_counter()
        cluster.start([VICTIM])
        asyncio.run(watch.wait_until_in_sync(WHOLE_WITHIN_S))
        elapsed = perf_counter() - began
    rates = (size_bytes / MEGA / elapsed, size_bytes / MEGA / copy_s)
    yield Comparison.of([rates]).figure("an empty replica catches up", "MB/s", "copy of its files")
