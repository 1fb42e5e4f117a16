"""Queries of a local Spark over a topic in the tier: by brokers, from the store, without reading.

Session, workers and code are warmed up before the measurement. A query is measured from its plan to its end.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import tidelog.spark_connector
from benchmarks.frames import RECORD_OVERHEAD_BYTES_MAX, produce_frame
from benchmarks.loads.options import main
from benchmarks.loads.pipelined import connect, send_and_receive
from benchmarks.processes import ROOT, process_cpu_seconds, tree_cpu_seconds
from benchmarks.spark_generator import NAME, Generator
from tests.reference_software.spark_kafka import spark_kafka_jars
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.spark_connector.jobs.local_settings import LOOPBACK, quiet_settings

TASKS_AT_ONCE: Final = 2
BATCH_BYTES: Final = 64 * 1024
DISTINCT_BATCHES: Final = 64
"""Together more than a dictionary of Parquet takes: values cannot be written in short."""


def spark(kind: str, **options: Any) -> dict[str, Any]:
    """Run the load called `kind`."""
    loads: dict[str, Callable[..., dict[str, Any]]] = {"fill": fill, "queries": queries, "batches": batches}
    return loads[kind](**options)


def fill(host: str, port: int, topic: str, partitions: int, rows: int, size: int) -> dict[str, Any]:
    """Write at least `rows` records with values of `size` random bytes."""
    randomness = random.Random(size)
    frames, count = [], 0
    for _ in range(DISTINCT_BATCHES):
        builder = BatchBuilder()
        count = 0
        while builder.estimated_size_bytes + size + RECORD_OVERHEAD_BYTES_MAX <= BATCH_BYTES:
            builder.append(int(time.time() * 1000), None, randomness.randbytes(size))
            count += 1
        frames.append(produce_frame(topic, partitions, bytes(builder.build())))
    with connect(host, port) as connection:
        for number in range(-(-rows // (count * partitions))):
            send_and_receive(connection, frames[number % len(frames)])
    return {}


def queries(
    sources: Mapping[str, Mapping[str, str]], rows: int, size: int, rounds: int, broker_pid: int
) -> dict[str, Any]:
    """Measure rows/s and CPU time per row of each query and source, and the CPU seconds of the broker.

    `sources` are the options of each source by name; `kafka` is Spark's own source. The rows are counted.
    """
    generator = {"rows": str(rows), "size": str(size), "tasks": str(2 * TASKS_AT_ONCE)}
    rates: dict[str, dict[str, list[float]]] = {}
    costs: dict[str, dict[str, list[float]]] = {}
    broker_cpu: dict[str, list[float]] = {}
    with _session() as session, _folder() as folder:
        session.dataSource.register(Generator)
        readers: dict[str, Callable[[], DataFrame]] = {
            name: lambda name=name, options=options: (
                session.read.format(_format(name)).options(**options).load()
            )  # type: ignore[misc]
            for name, options in sources.items()
        }
        readers["generator"] = lambda: session.read.format(NAME).options(**generator).load()
        counts = {name: reader().count() for name, reader in readers.items()}
        for query, run in _QUERIES.items():
            for _ in range(rounds):
                for name, reader in readers.items():
                    broker, cpu = process_cpu_seconds(broker_pid), tree_cpu_seconds(os.getpid())
                    started = time.perf_counter()
                    run(reader(), str(folder / "rows"))
                    elapsed = time.perf_counter() - started
                    cpu = tree_cpu_seconds(os.getpid()) - cpu
                    rates.setdefault(query, {}).setdefault(name, []).append(counts[name] / elapsed)
                    costs.setdefault(query, {}).setdefault(name, []).append(cpu / counts[name])
                    broker_cpu.setdefault(name, []).append(process_cpu_seconds(broker_pid) - broker)
    return {"rates": rates, "costs": costs, "broker_cpu": broker_cpu}


def batches(sources: Mapping[str, Mapping[str, str]], count: int) -> dict[str, Any]:
    """Return the median duration, in milliseconds, of a micro-batch of a few rows for each source.

    Spark's own source of generated rows is measured too; its time is the engine's overhead.
    """
    found = {}
    with _session() as session, _folder() as folder:
        frames = {
            name: session.readStream.format(_format(name)).options(**options).load()
            for name, options in sources.items()
        }
        rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", "4")
        frames["engine"] = rate.option("numPartitions", "1").load()
        for name, frame in frames.items():
            writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / name))
            query = (writer if name == "engine" else writer.trigger(availableNow=True)).start()
            durations_s: dict[int, float] = {}
            while query.isActive and len(durations_s) < count:
                durations_s |= {
                    one["batchId"]: one["durationMs"]["triggerExecution"]
                    for one in query.recentProgress
                    if one["numInputRows"]
                }
                time.sleep(0.05)
            query.stop()
            # The first ones start processes and compile code.
            found[name] = statistics.median([*durations_s.values()][min(3, len(durations_s) - 1) :])
    return {"median_ms": found}


def _format(source: str) -> str:
    return "kafka" if source == "kafka" else "tidelog"


def _count(frame: DataFrame, _path: str) -> None:
    frame.count()


def _lengths(frame: DataFrame, _path: str) -> None:
    frame.selectExpr("sum(length(value))").collect()


def _parquet(frame: DataFrame, path: str) -> None:
    frame.write.mode("overwrite").parquet(path)


_QUERIES: Final = {"count": _count, "sum of value lengths": _lengths, "write to Parquet": _parquet}


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tidelog-bench-spark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _use_checkout_in_workers() -> None:
    """Run the workers of this process's sessions with this Python and the modules of this checkout.

    Planners and workers are separate processes, which do not see changes of this process's path.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


@contextmanager
def _session() -> Iterator[SparkSession]:
    _use_checkout_in_workers()
    builder = tidelog.spark_connector.configure(SparkSession.builder.master(f"local[{TASKS_AT_ONCE}]"))
    with _folder() as folder:
        settings: dict[str, bool | float | int | str | None] = {
            **quiet_settings(folder),
            **LOOPBACK,
            "spark.driver.memory": "2g",
        }
        if jars := spark_kafka_jars():
            settings["spark.jars"] = ",".join(jars)
        session = builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()


if __name__ == "__main__":
    main(spark)
