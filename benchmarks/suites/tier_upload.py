"""Copying segments to the tier: the speed of a backlog, and the effect on producers.

A topic is filled while copying is disabled, then copying is enabled. The backlog is compared with raw puts of
as many bytes with as many threads as the broker has partitions to copy. The produce latency is compared with
that of the same broker before copying is enabled.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any, Final

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import run_load
from benchmarks.suites.effort import KIBIBYTE, MEBIBYTE, MEGA, Effort
from benchmarks.tiered_broker import (
    SEGMENT_BYTES,
    TIERED,
    TieredBroker,
    TierStore,
    directory_store,
    s3_store,
    tiered_broker,
)

PARTITIONS: Final = 4
PARTITION_BYTES: Final = 256 * MEBIBYTE
BATCH_BYTES: Final = 64 * KIBIBYTE
HELD_BACK: Final = {
    **TIERED,
    "remote.log.copy.disable": "true",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
}
RELEASED: Final = {"remote.log.copy.disable": "false", "local.retention.bytes": "1"}


def tier_upload(effort: Effort) -> Iterator[Figure]:
    """Measure MB/s to a directory and to S3, and the latencies meanwhile."""
    for opening in (directory_store(), s3_store()):
        yield from _measure_copying(opening, effort)


def _measure_copying(opening: AbstractContextManager[TierStore], effort: Effort) -> Iterator[Figure]:
    size = max(2 * SEGMENT_BYTES, int(PARTITION_BYTES * effort.scale))
    speeds: list[tuple[float, float]] = []
    latencies: list[tuple[float, float]] = []
    longest_s = 0.0
    with opening as store, tiered_broker(store) as broker:
        _latency_us(broker, effort)
        for number in range(effort.rounds):
            ends = _backlog(broker, f"speed-{number}", size)
            drained_s = _drain_s(broker, f"speed-{number}", ends)
            speeds.append((_bytes(size) / drained_s / MEGA, _put_rate(store, size) / MEGA))
            ends = _backlog(broker, f"latency-{number}", size)
            quiet = _latency_us(broker, effort)
            with ThreadPoolExecutor(1) as pool:
                draining = pool.submit(_drain_s, broker, f"latency-{number}", ends)
                busy = _latency_us(broker, effort)
                longest_s = max(longest_s, draining.result())
            latencies.append((busy, quiet))
    yield Comparison.of(speeds).figure(f"copy a backlog to the tier, {store.name}", "MB/s", "raw puts")
    yield Comparison.of(latencies).figure(
        f"produce latency p99 while copying, {store.name}",
        "us",
        "not copying",
        note=f"copying took up to {longest_s:.1f} s of the {effort.seconds:.1f} s, or continued after them",
    )


def _bytes(partition_bytes: int) -> int:
    """Return the size of the copied segments: all but the active ones."""
    return PARTITIONS * (partition_bytes // SEGMENT_BYTES) * SEGMENT_BYTES


def _backlog(broker: TieredBroker, topic: str, partition_bytes: int) -> list[int]:
    """Fill a topic whose segments are not copied yet; return the base offsets of its active segments."""
    broker.create(topic, PARTITIONS, HELD_BACK)
    # A little more, so that the last segment that counts is not the active one.
    options = {"partition_bytes": partition_bytes + BATCH_BYTES, "batch_bytes": BATCH_BYTES}
    run_load("tier", kind="fill", topic=topic, partitions=PARTITIONS, **options, **broker.place)
    return [broker.active_start(topic, number) for number in range(PARTITIONS)]


def _drain_s(broker: TieredBroker, topic: str, ends: list[int]) -> float:
    started = perf_counter()
    broker.alter(topic, RELEASED)
    broker.until_copied(topic, ends)
    return perf_counter() - started


def _put_rate(store: TierStore, partition_bytes: int) -> float:
    options: dict[str, Any] = {
        "backend": store.backend,
        "values": dict(store.values),
        "prefix": "raw",
        "object_bytes": SEGMENT_BYTES,
        "count": _bytes(partition_bytes) // SEGMENT_BYTES,
        "threads": PARTITIONS,
    }
    return float(run_load("tier", kind="puts", **options)["bytes_per_s"])


def _latency_us(broker: TieredBroker, effort: Effort) -> float:
    options = {"topic": "latency", "seconds": effort.seconds, "creates_topic": True}
    return float(run_load("raw", kind="latency", **options, **broker.place)["p99_us"])
