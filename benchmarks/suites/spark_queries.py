"""Complete queries of Spark over a topic in the tier, compared with a source that reads nothing.

Each query is measured alternately with three sources, in one session with two tasks in parallel: from the
broker, directly from the object store (a directory), and prepared Arrow batches, which are the upper bound of
the API. The CPU time of the broker is measured for each source; that of Spark includes the JVM and all
workers. Spark's own Kafka source is measured too if its jars are available (`make bench-spark-kafka`).
Broker, Spark and its workers share the cores of the machine.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import run_load
from benchmarks.suites.effort import MEBIBYTE, MEGA, MESSAGE_BYTES, Effort, size_name
from benchmarks.tiered_broker import SEGMENT_BYTES, TIERED, TieredBroker, directory_store, tiered_broker
from tests.reference_software.spark_kafka import VARIABLE, spark_kafka_jars

PARTITIONS: Final = 4
PARTITION_BYTES: Final = 96 * MEBIBYTE
LIMIT: Final = "generator"
KAFKA: Final = "kafka"
AT_LEAST: Final = {"direct": 0.5}
MICRO_BATCHES: Final = 25
ROWS_A_BATCH: Final = 4


def spark_queries(effort: Effort) -> Iterator[Figure]:
    """Measure rows/s of three queries, CPU of the broker for a backfill, and the time of a micro-batch."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        print("Spark needs Java 17 or later: its queries are skipped", file=sys.stderr)
        return
    if not spark_kafka_jars():
        print(
            f"Spark's Kafka connector is not measured: {VARIABLE} is not a folder",
            file=sys.stderr,
        )
    scaled = max(2, int(PARTITION_BYTES * effort.scale) // SEGMENT_BYTES) * SEGMENT_BYTES
    with directory_store() as store, tiered_broker(store) as broker:
        tier = {"kafka.bootstrap.servers": broker.process.address, **store.settings()}
        for size in MESSAGE_BYTES:
            topic = f"values-{size}"
            broker.create(topic, PARTITIONS, TIERED)
            rows = PARTITIONS * scaled // (size + 8)
            run_load(
                "spark", kind="fill", topic=topic, partitions=PARTITIONS, rows=rows, size=size, **broker.place
            )
            broker.until_tiered(topic, PARTITIONS)
            yield from _queries(broker, tier | {"subscribe": topic}, rows, size, effort)
        yield from _micro_batches(broker, tier)


def _queries(
    broker: TieredBroker, options: dict[str, str], rows: int, size: int, effort: Effort
) -> Iterator[Figure]:
    found = run_load(
        "spark",
        kind="queries",
        # As many tasks as the broker's, which cannot cut partitions by bytes.
        sources=_sources({**options, "minPartitions": "8"}),
        rows=rows,
        size=size,
        rounds=effort.rounds,
        broker_pid=broker.process.pid,
    )
    for query, rates in found["rates"].items():
        costs = found["costs"][query]
        for name in ("broker", "direct"):
            figure = f"Spark, {query}, {size_name(size)}, {name}"
            yield _comparison(rates, name, LIMIT, 1 / MEGA).figure(
                figure, "M rows/s", "reads nothing", at_least=AT_LEAST.get(name)
            )
            yield _comparison(costs, name, LIMIT, MEGA).figure(f"{figure}, CPU", "us/row", "reads nothing")
        if KAFKA in rates:
            figure = f"Spark, {query}, {size_name(size)}, Spark's Kafka source"
            yield _comparison(rates, KAFKA, "broker", 1 / MEGA).figure(figure, "M rows/s", "tier=broker")
            yield _comparison(costs, KAFKA, "broker", MEGA).figure(f"{figure}, CPU", "us/row", "tier=broker")
    cpu: dict[str, list[float]] = found["broker_cpu"]
    for name in sorted(cpu.keys() - {"broker", LIMIT}):
        yield _comparison(cpu, name, "broker", 1).figure(
            f"Spark, broker CPU for a backfill, {size_name(size)}, {name}", "s", "s, tier=broker"
        )


def _sources(options: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the options of each source, including Spark's own source if its jars are available."""
    sources = {name: {**options, "tier": name} for name in ("broker", "direct")}
    return sources | ({KAFKA: options} if spark_kafka_jars() else {})


def _comparison(found: dict[str, list[float]], name: str, other: str, unit: float) -> Comparison:
    return Comparison.of(
        [(one * unit, beside * unit) for one, beside in zip(found[name], found[other], strict=True)]
    )


def _micro_batches(broker: TieredBroker, options: dict[str, str]) -> Iterator[Figure]:
    """Measure micro-batches of a local topic, so that only planning differs."""
    broker.create("trickle", 1, {"remote.storage.enable": "true"})
    rows = MICRO_BATCHES * ROWS_A_BATCH
    run_load("spark", kind="fill", topic="trickle", partitions=1, rows=rows, size=100, **broker.place)
    stream: dict[str, Any] = {
        **options,
        "subscribe": "trickle",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(ROWS_A_BATCH),
    }
    sources = _sources(stream)
    found = run_load("spark", kind="batches", sources=sources, count=MICRO_BATCHES)["median_ms"]
    for name in sources:
        yield Comparison(found[name], found["engine"], found[name] / found["engine"]).figure(
            f"Spark, micro-batch of {ROWS_A_BATCH} rows, {name}", "ms", "Spark's rate-micro-batch"
        )
