"""librdkafka produces to Tidelog and to its own mock cluster: the same load, alternately.

The mock is written in C, and keeps the last 5 MiB of a partition in memory without checks; Tidelog checks
records and writes files. The third server (bare) is written in Python, and only checks, sets offsets and
writes.

Each round has new servers, so that the disk is not busy with writes of previous rounds. One broker has the
socket buffers that Linux chooses, one has Kafka's default of 100 KiB. Before each turn, the machine provides
free memory for files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from benchmarks.figures import Comparison, Figure
from benchmarks.file_memory import touch_file_memory
from benchmarks.processes import BrokerProcess, ServerProcess, run_load
from benchmarks.suites.effort import BATCH_BYTES, BUFFERS, MEGA, MESSAGE_BYTES, Effort, size_name

THROUGHPUT_AT_LEAST = 0.85
REFERENCES: Final = {"bare": "benchmarks.servers.bare_cluster", "mock": "benchmarks.servers.mock_cluster"}

Findings: TypeAlias = dict[str, Any]


def produce(effort: Effort) -> Iterator[Figure]:
    """Measure the throughput, the durations of requests, and the throughput of the bare server."""
    for message_bytes in MESSAGE_BYTES:
        for batch_bytes in BATCH_BYTES:
            rounds = [_round(message_bytes, batch_bytes, effort.seconds) for _ in range(effort.rounds)]
            name = f"{size_name(message_bytes)} in {size_name(batch_bytes)} batches, librdkafka"
            for buffers in BUFFERS:
                yield from _figures(name + buffers, [(each[buffers], each["mock"]) for each in rounds])
            bare = _throughput([(each["bare"], each["mock"]) for each in rounds])
            yield bare.figure("  the bare server", "MB/s", "mock")


def _figures(name: str, rounds: Sequence[tuple[Findings, Findings]]) -> Iterator[Figure]:
    yield _throughput(rounds).figure(
        f"produce {name}",
        "MB/s",
        "mock",
        at_least=THROUGHPUT_AT_LEAST,
        note=f"batches of {rounds[0][0]['batch_bytes_average']:,.0f} B",
    )
    for percentile in ("p50", "p99"):
        compared = _comparison(rounds, f"round_trip_{percentile}_us", 1 / 1000)
        yield compared.figure(f"  round trip {percentile}", "ms", "mock")


def _round(message_bytes: int, batch_bytes: int, seconds: float) -> dict[str, Findings]:
    """Run the load with Tidelog, with the mock and with the bare server; return the results by buffers."""
    options = {
        "kind": "produce",
        "topic": "produce",
        "message_bytes": message_bytes,
        "batch_bytes": batch_bytes,
        "seconds": seconds,
    }
    found = {}
    for name, server in _servers():
        with server:
            touch_file_memory()
            found[name] = run_load("librdkafka", servers=server.address, **options)
    return found


def _servers() -> Iterator[tuple[str, ServerProcess]]:
    for name, settings in BUFFERS.items():
        yield name, BrokerProcess({"num.partitions": "4", **settings})
    for name, module in REFERENCES.items():
        yield name, ServerProcess(module)


def _throughput(rounds: Sequence[tuple[Findings, Findings]]) -> Comparison:
    return _comparison(rounds, "bytes_per_s", 1 / MEGA)


def _comparison(rounds: Sequence[tuple[Findings, Findings]], key: str, unit: float) -> Comparison:
    return Comparison.of((one[key] * unit, other[key] * unit) for one, other in rounds)
