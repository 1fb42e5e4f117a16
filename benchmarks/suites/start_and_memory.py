"""The time from start to the first response, and the memory of a broker."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from time import perf_counter

from benchmarks.figures import Figure, median
from benchmarks.frames import metadata_frame
from benchmarks.loads.pipelined import connect, send_and_receive
from benchmarks.processes import BrokerProcess, run_load
from benchmarks.suites.effort import BATCH_BYTES, KIBIBYTE, MEBIBYTE, Effort

PROCESS_AT_MOST_S = 0.5
EMBEDDED_AT_MOST_S = 0.2
IDLE_AT_MOST_MIB = 60
LOADED_AT_MOST_MIB = 150


def start_and_memory(effort: Effort) -> Iterator[Figure]:
    """Measure the start with an empty directory, the idle memory, and its peak under load of librdkafka."""
    starts = [_first_response_s() for _ in range(effort.rounds)]
    value = statistics.median(elapsed for elapsed, _ in starts)
    yield Figure(name="start to first response, process", value=value, unit="s", at_most=PROCESS_AT_MOST_S)
    # Other work on the machine lengthens this less.
    value = statistics.median(cpu for _, cpu in starts)
    yield Figure(name="  CPU of the process until then", value=value, unit="s")
    _embedded_s()  # the first one also imports the broker
    value = median(effort.rounds, _embedded_s)
    yield Figure(name="EmbeddedCluster, start to ready", value=value, unit="s", at_most=EMBEDDED_AT_MOST_S)
    with BrokerProcess() as broker:
        with connect(broker.host, broker.port) as connection:
            send_and_receive(connection, metadata_frame("idle"))
        idle_mib = broker.resident_bytes() / MEBIBYTE
        yield Figure(name="resident memory, idle", value=idle_mib, unit="MiB", at_most=IDLE_AT_MOST_MIB)
        for batch_bytes in BATCH_BYTES:
            run_load(
                "librdkafka",
                kind="produce",
                servers=broker.address,
                topic=f"memory-{batch_bytes}",
                message_bytes=KIBIBYTE,
                batch_bytes=batch_bytes,
                seconds=effort.seconds,
            )
        most_mib = broker.peak_resident_bytes() / MEBIBYTE
    yield Figure(name="resident memory, under load", value=most_mib, unit="MiB", at_most=LOADED_AT_MOST_MIB)


def _first_response_s() -> tuple[float, float]:
    """Return the seconds until the first response, and the CPU seconds."""
    started = perf_counter()
    with BrokerProcess() as broker:
        with connect(broker.host, broker.port) as connection:
            send_and_receive(connection, metadata_frame("first"))
        return perf_counter() - started, broker.cpu_seconds()


def _embedded_s() -> float:
    from tidelog.testing.embedded import EmbeddedCluster

    cluster = EmbeddedCluster()
    started = perf_counter()
    with cluster:
        return perf_counter() - started
