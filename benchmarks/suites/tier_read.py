"""Reads of records that are only in the tier: cold and warm, by one consumer and by four.

cold    The chunk cache is empty. The broker was restarted and has read the local topic once, so that its
        codecs are compiled and its start is complete. The references are the local read, and raw GETs of
        whole chunks of the same objects. The raw GETs keep their results; their parallelism is that of the
        chunk cache and of the window of one reader (32 MiB in chunks of 4 MiB).
warm    A second read, completely from the chunk cache. The reference is a topic that is not tiered.

Raw GETs are the upper bound if the latency or bandwidth of the store is the bottleneck. They are no suitable
reference for a directory, whose GETs are copies from the page cache and cost little: broker and consumer,
which transfer the same bytes over a socket, are the bottleneck then, and the local read is the upper bound.
All processes, including moto, share the cores, and the files of a directory are in the page cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
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
from tidelog.remote.objects.stores.backends import object_store

PARTITIONS: Final = 4
PARTITION_BYTES: Final = 160 * MEBIBYTE
S3_PARTITION_BYTES: Final = 48 * MEBIBYTE
"""Less, as moto gives some hundred MB/s at most."""
BATCH_BYTES: Final = 16 * KIBIBYTE
FETCH_BYTES: Final = MEBIBYTE
CHUNK_BYTES: Final = 4 * MEBIBYTE
THREADS: Final = 8
DELAY_MS: Final = 20.0
COLD_AT_LEAST: Final = 0.8
WARM_AT_LEAST: Final = 0.8
SETTINGS: Final = {
    "rsm.config.fetch.chunk.cache.size": str(2 * PARTITIONS * PARTITION_BYTES),
    "rsm.config.chunk.size": str(CHUNK_BYTES),
}


def tier_read(effort: Effort) -> Iterator[Figure]:
    """Measure MB/s from the directory, the directory with slow GETs, and S3."""
    scaled = max(2, int(PARTITION_BYTES * effort.scale) // SEGMENT_BYTES) * SEGMENT_BYTES
    yield from _from_store(directory_store(), scaled, effort)
    yield from _from_store(directory_store(DELAY_MS), scaled, effort)
    yield from _from_store(s3_store(), min(scaled, S3_PARTITION_BYTES), effort)


def _from_store(
    opening: AbstractContextManager[TierStore], partition_bytes: int, effort: Effort
) -> Iterator[Figure]:
    with opening as store, tiered_broker(store, SETTINGS) as broker:
        fill = {"partition_bytes": partition_bytes, "batch_bytes": BATCH_BYTES, "partitions": PARTITIONS}
        broker.create("tiered", PARTITIONS, TIERED)
        broker.create("local", PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
        for topic in ("tiered", "local"):
            run_load("tier", kind="fill", topic=topic, **fill, **broker.place)
        ends = broker.until_tiered("tiered", PARTITIONS)
        for consumers in (1, PARTITIONS):
            yield from _measure_reads(broker, store, ends[:consumers], effort)


def _measure_reads(
    broker: TieredBroker, store: TierStore, ends: list[int], effort: Effort
) -> Iterator[Figure]:
    keys = _log_objects(store, len(ends))
    cold, cold_to_local, warm = [], [], []
    for _ in range(effort.rounds):
        broker.restart()
        _rate(broker, "local", ends)
        raw = {**store.options(), "keys": keys, "part_bytes": CHUNK_BYTES, "threads": THREADS}
        first = _rate(broker, "tiered", ends)
        cold.append((first, run_load("tier", kind="gets", **raw)["bytes_per_s"] / MEGA))
        again, local = _rate(broker, "tiered", ends), _rate(broker, "local", ends)
        warm.append((again, local))
        cold_to_local.append((first, local))
    readers = "1 consumer" if len(ends) == 1 else f"{len(ends)} consumers"
    yield Comparison.of(cold).figure(
        f"remote read, {store.name}, cold, {readers}", "MB/s", "raw GETs", at_least=COLD_AT_LEAST
    )
    yield Comparison.of(cold_to_local).figure(
        f"remote read, {store.name}, cold, {readers}, to local", "MB/s", "local read"
    )
    yield Comparison.of(warm).figure(
        f"remote read, {store.name}, warm, {readers}", "MB/s", "local read", at_least=WARM_AT_LEAST
    )


def _rate(broker: TieredBroker, topic: str, ends: list[int]) -> float:
    places = [(topic, partition, end) for partition, end in enumerate(ends)]
    options: dict[str, Any] = {"places": places, "max_bytes": FETCH_BYTES, **broker.place}
    return float(run_load("tier", kind="read", **options)["bytes_per_s"]) / MEGA


def _log_objects(store: TierStore, partitions: int) -> list[str]:
    """Return the keys of the log objects of the first partitions."""
    objects = object_store(store.backend, store.values)
    try:
        keys = [info.key for info in objects.list("tiered-") if info.key.endswith(".log")]
    finally:
        objects.close()
    return sorted(key for key in keys if int(key.split("/")[1]) < partitions)
