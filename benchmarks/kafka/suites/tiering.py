"""Copying a backlog to an S3 server, and reading it back cold; Apache Kafka uses Aiven's plugin.

`TIDELOG_AIVEN_CLASSPATH` has the plugin's classes and the libraries that it needs in addition to Kafka's;
without it the suite has no cases. Both engines get the same configuration text.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import KIBIBYTE, MEBIBYTE, MEGA, Better, Case, Effort, Findings, Metric, Suite
from benchmarks.processes import BenchmarkError, run_load
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

TOPIC: Final = "tiered"
AIVEN: Final = "io.aiven.kafka.tieredstorage"
READERS: Final = 4
PARTITIONS: Final = READERS + 1
"""One consumer reads the last partition, four read the others: each reads what no cache has."""
PARTITION_BYTES: Final = 64 * MEBIBYTE
SEGMENT_BYTES: Final = 16 * MEBIBYTE
BATCH_BYTES: Final = 16 * KIBIBYTE
FETCH_BYTES: Final = MEBIBYTE
TIERED_WITHIN_S: Final = 180.0
POLL_S: Final = 0.05

SETTINGS: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": f"{AIVEN}.RemoteStorageManager",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "rsm.config.chunk.size": str(4 * MEBIBYTE),
    "rsm.config.fetch.chunk.cache.class": f"{AIVEN}.fetch.cache.MemoryChunkCache",
    "rsm.config.fetch.chunk.cache.size": str(256 * MEBIBYTE),
    "rsm.config.fetch.chunk.cache.prefetch.max.size": str(16 * MEBIBYTE),
    # So that waiting for the next check is no part of the figures.
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
}

COPY: Final = Metric(key="copied", name="copy a backlog", unit="MB/s", better=Better.HIGHER)
COPY_CPU: Final = Metric(key="copy_cpu_s", name="broker CPU for it", unit="s", better=Better.LOWER)
COLD: Final = Metric(
    key="cold_1", name="cold read", variant="1 consumer", unit="MB/s", better=Better.HIGHER, target=4.0
)
COLD_4: Final = Metric(
    key="cold_4", name="cold read", variant="4 consumers", unit="MB/s", better=Better.HIGHER, target=4.0
)


def tiering_cases(effort: Effort) -> list[Case]:
    """Return the one case, if the plugin's classes are available."""
    plugin = os.environ.get("TIDELOG_AIVEN_CLASSPATH")
    if not plugin:
        return []
    partition_bytes = max(2, int(PARTITION_BYTES * effort.scale) // SEGMENT_BYTES) * SEGMENT_BYTES
    return [
        Case(
            group="tiered storage, S3 server",
            variant="",
            metrics=(COPY, COPY_CPU, COLD, COLD_4),
            setup=Setup(
                settings=tuple(SETTINGS.items()), plugins=tuple(plugin.split(os.pathsep)), has_s3=True
            ),
            prepare=_warm_up,
            prepare_s=10.0,
            turn=partial(_turn, partition_bytes),
            turn_s=8.0 + 8.0 * effort.scale,
        )
    ]


def _warm_up(brokers: Brokers) -> None:
    """Copy and read once, so that Java's compiler has compiled the plugin."""
    _turn(2 * SEGMENT_BYTES, brokers)


def _turn(partition_bytes: int, brokers: Brokers) -> Findings:
    brokers.create_topic(TOPIC, PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
    brokers.wait_until_served(TOPIC, PARTITIONS)
    place = {"host": "127.0.0.1", "port": brokers.ports[0]}
    # One segment more: the active one is not copied.
    fill = {"partition_bytes": partition_bytes + SEGMENT_BYTES // 2, "batch_bytes": BATCH_BYTES}
    run_load("tier", kind="fill", topic=TOPIC, partitions=PARTITIONS, **fill, **place)
    ends = [_active_start(brokers, number) for number in range(PARTITIONS)]
    copied_bytes = sum(_sealed_bytes(brokers, number) for number in range(PARTITIONS))
    cpu_before, started = brokers.cpu_seconds(), time.perf_counter()
    brokers.alter_topic(TOPIC, {"remote.storage.enable": "true"})
    _wait_until(brokers, lambda: _offsets(brokers, OffsetSpec.LATEST_TIERED) == [end - 1 for end in ends])
    copy_s, copy_cpu_s = time.perf_counter() - started, brokers.cpu_seconds() - cpu_before
    brokers.alter_topic(TOPIC, {"local.retention.bytes": "1"})
    _wait_until(brokers, lambda: _offsets(brokers, OffsetSpec.EARLIEST_LOCAL) == ends)
    places = [(TOPIC, number, end) for number, end in enumerate(ends)]
    rates = [
        run_load("tier", kind="read", places=chosen, max_bytes=FETCH_BYTES, **place)["bytes_per_s"] / MEGA
        for chosen in (places[READERS:], places[:READERS])
    ]
    brokers.delete_topic(TOPIC)
    return {
        "copied": copied_bytes / MEGA / copy_s,
        "copy_cpu_s": copy_cpu_s,
        "cold_1": rates[0],
        "cold_4": rates[1],
    }


def _segments(brokers: Brokers, partition: int) -> list[tuple[int, int]]:
    """Return base offset and size of a partition's segments."""
    files = sorted((brokers.data(0) / f"{TOPIC}-{partition}").glob("*.log"))
    return [(int(path.stem), path.stat().st_size) for path in files]


def _active_start(brokers: Brokers, partition: int) -> int:
    return _segments(brokers, partition)[-1][0]


def _sealed_bytes(brokers: Brokers, partition: int) -> int:
    return sum(size for _, size in _segments(brokers, partition)[:-1])


def _offsets(brokers: Brokers, spec: OffsetSpec) -> list[int]:
    """Return an offset of each partition; librdkafka's admin client cannot query those of the tier."""

    async def list_offsets() -> list[int]:
        names = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        async with Admin(brokers.addresses) as admin:
            found = await admin.list_offsets(dict.fromkeys(names, int(spec)))
        # An error means that the tier has nothing of the partition yet.
        return [-2 if isinstance(each, KafkaError) else each.offset for each in map(found.__getitem__, names)]

    return asyncio.run(list_offsets())


def _wait_until(brokers: Brokers, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIERED_WITHIN_S
    while not holds():
        brokers.check_running()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{brokers.engine.value} did not copy within {TIERED_WITHIN_S:.0f} s")
        time.sleep(POLL_S)


TIERING: Final = Suite(
    name="tiering",
    what="tiered storage on an S3 server (moto): copy a backlog of five partitions, read it cold with one "
    "and with four consumers; needs Aiven's plugin in `TIDELOG_AIVEN_CLASSPATH`",
    cases=tiering_cases,
    requirement="TIDELOG_AIVEN_CLASSPATH does not name the classes of Aiven's plugin for Apache Kafka",
)
