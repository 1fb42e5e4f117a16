"""Reading what only the tier has: cold and warm, by one consumer and by four.

cold    nothing is in the chunk cache of a broker that was restarted and has read the local topic once, so
        that its codecs are compiled and its start has ended. Compared with raw GETs of whole chunks of
        the same objects that keep what they get, as many at a time as the chunk cache has threads and the
        window of one reader has chunks (32 MiB in chunks of 4 MiB); and the local read.
warm    read again: all of it is in the chunk cache. Compared with as much of a topic that is not tiered.

Raw GETs are what a broker can reach at most where the store is the bottleneck, by its latency or bandwidth.
They are no fair reference where GETs cost next to nothing, as those of a directory, which are copies out of
the page cache: there broker and consumer are the bottleneck, as they hand the same bytes through a socket,
and the local read is what can be reached at most. All processes share the cores, moto too, and find the
files of a directory in the page cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from benchmarks.figures import Compared, Figure
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
    """MB/s from the directory, the directory with slow GETs, and S3."""
    scaled = max(2, int(PARTITION_BYTES * effort.scale) // SEGMENT_BYTES) * SEGMENT_BYTES
    yield from _from_store(directory_store(), scaled, effort)
    yield from _from_store(directory_store(DELAY_MS), scaled, effort)
    yield from _from_store(s3_store(), min(scaled, S3_PARTITION_BYTES), effort)


def _from_store(
    made: AbstractContextManager[TierStore], partition_bytes: int, effort: Effort
) -> Iterator[Figure]:
    with made as store, tiered_broker(store, SETTINGS) as broker:
        fill = {"partition_bytes": partition_bytes, "batch_bytes": BATCH_BYTES, "partitions": PARTITIONS}
        broker.create("tiered", PARTITIONS, TIERED)
        broker.create("local", PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
        for topic in ("tiered", "local"):
            run_load("tier", kind="fill", topic=topic, **fill, **broker.place)
        ends = broker.until_tiered("tiered", PARTITIONS)
        for consumers in (1, PARTITIONS):
            yield from _consumed(broker, store, ends[:consumers], effort)


def _consumed(broker: TieredBroker, store: TierStore, ends: list[int], effort: Effort) -> Iterator[Figure]:
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
    yield Compared.of(cold).figure(
        f"remote read, {store.name}, cold, {readers}", "MB/s", "raw GETs", at_least=COLD_AT_LEAST
    )
    yield Compared.of(cold_to_local).figure(
        f"remote read, {store.name}, cold, {readers}, to local", "MB/s", "local read"
    )
    yield Compared.of(warm).figure(
        f"remote read, {store.name}, warm, {readers}", "MB/s", "local read", at_least=WARM_AT_LEAST
    )


def _rate(broker: TieredBroker, topic: str, ends: list[int]) -> float:
    places = [(topic, partition, end) for partition, end in enumerate(ends)]
    options: dict[str, Any] = {"places": places, "max_bytes": FETCH_BYTES, **broker.place}
    return float(run_load("tier", kind="read", **options)["bytes_per_s"]) / MEGA


def _log_objects(store: TierStore, partitions: int) -> list[str]:
    """The keys of the log files of the first partitions."""
    objects = object_store(store.backend, store.values)
    try:
        keys = [info.key for info in objects.list("tiered-") if info.key.endswith(".log")]
    finally:
        objects.close()
    return sorted(key for key in keys if int(key.split("/")[1]) < partitions)
