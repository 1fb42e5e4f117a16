"""The cost of a produce request: CPU time of the loop, and requests per second.

There are two references. The *prototype* is a value that was measured once on a quiet machine of this kind
(docs/performance.md); the target is relative to it. The *bare* server is a minimal broker in Python that is
measured in the same run: the ratio to it does not depend on the machine or its load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from benchmarks.figures import Comparison, Figure
from benchmarks.file_memory import touch_file_memory
from benchmarks.processes import BrokerProcess, ServerProcess, run_load
from benchmarks.suites.effort import BUFFERS, KIBIBYTE, MEBIBYTE, Effort

CPU_AT_MOST = 1.5

Findings: TypeAlias = dict[str, Any]

# The amount of data is bounded, so that no disk has to keep up.
SECONDS_MAX: Final = 1.5


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of Produce request and the number of requests in flight."""

    name: str
    batch_bytes: int
    partitions: int
    connections: int
    in_flight: int
    prototype_us: float


SHAPES: Final = (
    Shape("1 record of 100 B", 0, 1, 8, 5, 11.5),
    Shape("16 KiB batch", 16 * KIBIBYTE, 1, 4, 5, 25.0),
    Shape("6 partitions x 16 KiB", 16 * KIBIBYTE, 6, 4, 5, 130.0),
    Shape("1 MiB batch", MEBIBYTE, 1, 4, 2, 670.0),
)


def requests(effort: Effort) -> Iterator[Figure]:
    """Measure the maximum rate of requests of each shape."""
    seconds = min(effort.seconds, SECONDS_MAX)
    for shape in SHAPES:
        rounds = [_round(shape, seconds) for _ in range(effort.rounds)]
        for buffers in BUFFERS:
            yield from _figures(shape, buffers, [(ours[buffers], bare) for ours, bare in rounds])


def _figures(shape: Shape, buffers: str, rounds: Sequence[tuple[Findings, Findings]]) -> Iterator[Figure]:
    cpu = Comparison.of((ours["cpu_us_per_request"], shape.prototype_us) for ours, _ in rounds)
    yield cpu.figure(f"CPU per produce, {shape.name}{buffers}", "us", "prototype", at_most=CPU_AT_MOST)
    for key, name, unit in (
        ("cpu_us_per_request", "  compared with the bare server", "us"),
        ("requests_per_s", "  requests", "1/s"),
    ):
        yield Comparison.of((ours[key], bare[key]) for ours, bare in rounds).figure(name, unit, "bare")


def _round(shape: Shape, seconds: float) -> tuple[dict[str, Findings], Findings]:
    """Return the results for Tidelog, by buffers, and for the bare server with the buffers of Linux."""
    ours = {}
    for name, settings in BUFFERS.items():
        with BrokerProcess(settings) as broker:
            ours[name] = _load(broker, shape, seconds, creates_topic=True)
    with ServerProcess("benchmarks.servers.bare_broker") as bare:
        return ours, _load(bare, shape, seconds, creates_topic=False)


def _load(server: ServerProcess, shape: Shape, seconds: float, *, creates_topic: bool) -> Findings:
    touch_file_memory()
    return run_load(
        "pipelined",
        host=server.host,
        port=server.port,
        topic="requests",
        partitions=shape.partitions,
        batch_bytes=shape.batch_bytes,
        connections=shape.connections,
        in_flight=shape.in_flight,
        seconds=seconds,
        pid=server.pid,
        creates_topic=creates_topic,
    )
