"""What is measured, each beside its reference in the same run. Targets: docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

from benchmarks import timing_wheel
from benchmarks.figures import Figure, median, paired
from benchmarks.processes import BrokerProcess, ServerProcess, run_load

MESSAGE_BYTES: Final = (100, 1024)
BATCH_BYTES: Final = (16 * 1024, 64 * 1024, 1024 * 1024)
FETCH_BYTES: Final = 1024 * 1024
PRODUCE_ANSWER_BYTES: Final = 60
MEGA: Final = 1e6
MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often: `scale` 1 is the full run."""

    rounds: int
    seconds: float
    scale: float


FULL: Final = Effort(rounds=5, seconds=3.0, scale=1.0)
QUICK: Final = Effort(rounds=2, seconds=0.7, scale=0.2)

Suite = Callable[[Effort], Iterator[Figure]]


def produce_throughput(effort: Effort) -> Iterator[Figure]:
    """librdkafka produces to us and to its own mock cluster, acks=1."""
    with BrokerProcess() as broker, ServerProcess("benchmarks.servers.mock_cluster") as mock:
        for message_bytes in MESSAGE_BYTES:
            size_bytes = int((40_000_000 if message_bytes < 1024 else 250_000_000) * effort.scale)
            for batch_bytes in BATCH_BYTES:

                def rate(server: ServerProcess, *sizes: int) -> float:
                    message, batch, size = sizes
                    found = run_load(
                        "librdkafka",
                        kind="produce",
                        servers=server.address,
                        topic=f"produce-{message}-{batch}",
                        message_bytes=message,
                        batch_bytes=batch,
                        size_bytes=size,
                    )
                    return float(found["bytes_per_s"]) / MEGA

                sizes = (message_bytes, batch_bytes, size_bytes)
                ours, reference = paired(
                    effort.rounds, partial(rate, broker, *sizes), partial(rate, mock, *sizes)
                )
                name = f"produce {message_bytes} B in {batch_bytes // 1024} KiB batches, librdkafka"
                yield Figure(name, ours, "MB/s", reference, "mock", at_least=0.85)


def produce_cpu(effort: Effort) -> Iterator[Figure]:
    """CPU of the loop per produce request.

    Beside a prototype that did the same by hand, measured once on a quiet machine of this kind, and
    beside the least that a Python broker can do, measured now.
    """
    shapes = {
        "1 record of 100 B": (0, 1, 8, 11.5),
        "16 KiB batch": (16 * 1024, 1, 4, 25.0),
        "6 partitions of 16 KiB": (16 * 1024, 6, 4, 130.0),
        "1 MiB batch": (1_000_000, 1, 4, 670.0),
    }
    with BrokerProcess() as broker, ServerProcess("benchmarks.servers.bare_broker") as bare:
        for name, (batch_bytes, partitions, connections, prototype_us) in shapes.items():

            def cpu_us(server: ServerProcess, creates_topic: bool, *shape: int) -> float:
                size, parts, sockets = shape
                found = run_load(
                    "pipelined",
                    host=server.host,
                    port=server.port,
                    topic=f"cpu-{size}-{parts}",
                    partitions=parts,
                    batch_bytes=size,
                    connections=sockets,
                    in_flight=5,
                    seconds=effort.seconds,
                    pid=server.pid,
                    creates_topic=creates_topic,
                )
                return float(found["cpu_us_per_request"])

            shape = (batch_bytes, partitions, connections)
            ours, reference = paired(
                effort.rounds,
                partial(cpu_us, broker, True, *shape),
                partial(cpu_us, bare, False, *shape),
            )
            title = f"CPU per produce, {name}"
            yield Figure(title, ours, "us", prototype_us, "prototype", at_most=1.5)
            yield Figure(f"{title}, in this run", ours, "us", reference, "bare")


def produce_latency(effort: Effort) -> Iterator[Figure]:
    """One record at a time, beside an echo server on the same loop."""
    with (
        BrokerProcess() as broker,
        ServerProcess("benchmarks.servers.echo", [str(PRODUCE_ANSWER_BYTES)]) as echo,
    ):

        def percentile(server: ServerProcess, which: str, creates_topic: bool) -> float:
            found = run_load(
                "raw",
                kind="latency",
                host=server.host,
                port=server.port,
                topic="latency",
                seconds=effort.seconds,
                creates_topic=creates_topic,
            )
            return float(found[which])

        for which, at_most in (("p50_us", None), ("p99_us", 3.0)):
            ours, reference = paired(
                effort.rounds,
                partial(percentile, broker, which, True),
                partial(percentile, echo, which, False),
            )
            name = f"produce latency {which[:3]}, 1 in flight"
            yield Figure(name, ours, "us", reference, "echo", at_most=at_most)


def librdkafka_latency(effort: Effort) -> Iterator[Figure]:
    """librdkafka produces one record of 100 bytes at a time, to us and to its mock cluster."""
    with BrokerProcess() as broker, ServerProcess("benchmarks.servers.mock_cluster") as mock:

        def percentile(server: ServerProcess, which: str) -> float:
            options = {"topic": "one", "message_bytes": 100, "seconds": effort.seconds}
            found = run_load("librdkafka", kind="latency", servers=server.address, **options)
            return float(found[which])

        for which in ("p50_us", "p99_us"):
            ours, reference = paired(
                effort.rounds, partial(percentile, broker, which), partial(percentile, mock, which)
            )
            yield Figure(f"produce latency {which[:3]}, librdkafka", ours, "us", reference, "mock")


def librdkafka_consume(effort: Effort) -> Iterator[Figure]:
    """librdkafka reads back what it produced; its mock cluster does not keep enough to compare with."""
    with BrokerProcess() as broker:
        for message_bytes in MESSAGE_BYTES:
            size_bytes = int((40_000_000 if message_bytes < 1024 else 250_000_000) * effort.scale)
            place = {
                "servers": broker.address,
                "topic": f"consume-{message_bytes}",
                "message_bytes": message_bytes,
            }
            batch_bytes = 64 * 1024
            run_load("librdkafka", kind="produce", **place, batch_bytes=batch_bytes, size_bytes=size_bytes)
            count = size_bytes // message_bytes

            def rate(place: dict[str, Any], count: int) -> float:
                found = run_load("librdkafka", kind="consume", **place, count=count)
                return float(found["bytes_per_s"]) / MEGA

            value = median(effort.rounds, partial(rate, place, count))
            yield Figure(f"consume {message_bytes} B, librdkafka", value, "MB/s")


def consume_throughput(effort: Effort) -> Iterator[Figure]:
    """Reading from the page cache, beside nothing but sendfile of as many bytes.

    Once with Kafka's default of `socket.send.buffer.bytes`, which keeps Linux from choosing a larger
    one, and once with -1, which lets it.
    """
    for name, send_buffer in (("default send buffer", "102400"), ("send buffer -1", "-1")):
        yield from _consume(effort, name, send_buffer)


def _consume(effort: Effort, name: str, send_buffer: str) -> Iterator[Figure]:
    with (
        BrokerProcess({"socket.send.buffer.bytes": send_buffer}) as broker,
        ServerProcess("benchmarks.servers.sendfile", [str(FETCH_BYTES)]) as sendfile,
    ):
        place = {"host": broker.host, "port": broker.port, "topic": "consume"}
        run_load("raw", kind="fill", **place, size_bytes=64 * MEBIBYTE, batch_bytes=16 * 1024)

        def fetched() -> float:
            found = run_load("raw", kind="fetch", **place, max_bytes=FETCH_BYTES, seconds=effort.seconds)
            return float(found["bytes_per_s"]) / MEGA

        def streamed() -> float:
            found = run_load(
                "raw",
                kind="stream",
                host=sendfile.host,
                port=sendfile.port,
                length=FETCH_BYTES,
                seconds=effort.seconds,
            )
            return float(found["bytes_per_s"]) / MEGA

        ours, reference = paired(effort.rounds, fetched, streamed)
        yield Figure(f"consume 1 MiB fetches, {name}", ours, "MB/s", reference, "sendfile", at_least=0.6)


def start_and_memory(effort: Effort) -> Iterator[Figure]:
    """From nothing to the first answer, and what the process takes."""

    def first_answer() -> float:
        started = perf_counter()
        with BrokerProcess() as broker:
            from benchmarks.frames import metadata_frame
            from benchmarks.loads.pipelined import ask, connect

            with connect(broker.host, broker.port) as connection:
                ask(connection, metadata_frame("first"))
            return perf_counter() - started

    def embedded() -> float:
        from tidelog.embedded import EmbeddedCluster

        started = perf_counter()
        with EmbeddedCluster():
            return perf_counter() - started

    embedded()
    yield Figure("start to first answer, process", median(effort.rounds, first_answer), "s", at_most=0.5)
    yield Figure("EmbeddedCluster ready", median(effort.rounds, embedded), "s", at_most=0.2)
    with BrokerProcess() as broker:
        yield Figure("resident memory, idle", broker.resident_bytes() / MEBIBYTE, "MiB", at_most=60)
        for batch_bytes in BATCH_BYTES:
            run_load(
                "librdkafka",
                kind="produce",
                servers=broker.address,
                topic=f"memory-{batch_bytes}",
                message_bytes=1024,
                batch_bytes=batch_bytes,
                size_bytes=int(200_000_000 * effort.scale),
            )
        yield Figure(
            "resident memory, most under load", broker.peak_resident_bytes() / MEBIBYTE, "MiB", at_most=150
        )


def timers(effort: Effort) -> Iterator[Figure]:
    """A million timers, 99 % of them cancelled."""
    found = timing_wheel.main()
    wheel, heap = found["timing wheel"], found["heapq, lazy cancel"]
    yield Figure(
        "timing wheel, insert and cancel",
        wheel["insert_cancel_us"],
        "us",
        heap["insert_cancel_us"],
        "heapq",
        at_most=1.0,
    )


SUITES: Final[dict[str, Suite]] = {
    "start": start_and_memory,
    "latency": produce_latency,
    "cpu": produce_cpu,
    "consume": consume_throughput,
    "consume-librdkafka": librdkafka_consume,
    "latency-librdkafka": librdkafka_latency,
    "produce": produce_throughput,
    "timers": timers,
}
