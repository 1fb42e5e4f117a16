"""librdkafka produces to us and to its own mock cluster: the same load, in turns.

The mock is C and keeps the last 5 MiB of a partition in memory, unchecked; we check and write a file. Each
round has a mock and brokers of its own, one with Kafka's default socket buffers and one with those that
Linux chooses, so that no disk is busy with what rounds before have written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from benchmarks.figures import Compared, Figure
from benchmarks.processes import BrokerProcess, ServerProcess, run_load
from benchmarks.suites.effort import BATCH_BYTES, BUFFERS, MEGA, MESSAGE_BYTES, Effort, size_name

THROUGHPUT_AT_LEAST = 0.85

Findings: TypeAlias = dict[str, Any]


def produce(effort: Effort) -> Iterator[Figure]:
    """Throughput with its target, and how long requests took meanwhile."""
    for message_bytes in MESSAGE_BYTES:
        for batch_bytes in BATCH_BYTES:
            rounds = [_round(message_bytes, batch_bytes, effort.seconds) for _ in range(effort.rounds)]
            name = f"{size_name(message_bytes)} in {size_name(batch_bytes)} batches, librdkafka"
            for buffers in BUFFERS:
                yield from _figures(name + buffers, [(ours[buffers], mock) for ours, mock in rounds])


def _figures(name: str, rounds: Sequence[tuple[Findings, Findings]]) -> Iterator[Figure]:
    yield _compared(rounds, "bytes_per_s", 1 / MEGA).figure(
        f"produce {name}",
        "MB/s",
        "mock",
        at_least=THROUGHPUT_AT_LEAST,
        note=f"batches of {rounds[0][0]['batch_bytes_average']:,.0f} B",
    )
    for percentile in ("p50", "p99"):
        compared = _compared(rounds, f"round_trip_{percentile}_us", 1 / 1000)
        yield compared.figure(f"  round trip {percentile}", "ms", "mock")


def _round(message_bytes: int, batch_bytes: int, seconds: float) -> tuple[dict[str, Findings], Findings]:
    """What the load found with us, by buffers, and with the mock."""
    options = {
        "kind": "produce",
        "topic": "produce",
        "message_bytes": message_bytes,
        "batch_bytes": batch_bytes,
        "seconds": seconds,
    }
    ours = {}
    for name, settings in BUFFERS.items():
        with BrokerProcess({"num.partitions": "4", **settings}) as broker:
            ours[name] = run_load("librdkafka", servers=broker.address, **options)
    with ServerProcess("benchmarks.servers.mock_cluster") as mock:
        return ours, run_load("librdkafka", servers=mock.address, **options)


def _compared(rounds: Sequence[tuple[Findings, Findings]], key: str, unit: float) -> Compared:
    return Compared.of((ours[key] * unit, mock[key] * unit) for ours, mock in rounds)
