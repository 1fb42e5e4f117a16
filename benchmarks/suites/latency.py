"""One record at a time: with a raw socket compared with an echo server, and with librdkafka and its mock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import BrokerProcess, ServerProcess, run_load
from benchmarks.suites.effort import Effort

P99_AT_MOST = 3.0
PRODUCE_RESPONSE_BYTES = 60


def latency(effort: Effort) -> Iterator[Figure]:
    """Measure the median and the 99th percentile of response times in microseconds."""
    with (
        BrokerProcess() as broker,
        ServerProcess("benchmarks.servers.echo", [str(PRODUCE_RESPONSE_BYTES)]) as echo,
        ServerProcess("benchmarks.servers.mock_cluster") as mock,
    ):
        raw = [
            (_raw(broker, effort, creates_topic=True), _raw(echo, effort, creates_topic=False))
            for _ in range(effort.rounds)
        ]
        librdkafka = [(_librdkafka(broker, effort), _librdkafka(mock, effort)) for _ in range(effort.rounds)]
    for key, at_most in (("p50_us", None), ("p99_us", P99_AT_MOST)):
        compared = Comparison.of((ours[key], echoed[key]) for ours, echoed in raw)
        yield compared.figure(f"produce latency {key[:3]}, 1 in flight", "us", "echo", at_most=at_most)
    for key in ("p50_us", "p99_us"):
        compared = Comparison.of((ours[key], mocked[key]) for ours, mocked in librdkafka)
        yield compared.figure(f"produce latency {key[:3]}, librdkafka", "us", "mock")


def _raw(server: ServerProcess, effort: Effort, *, creates_topic: bool) -> dict[str, Any]:
    return run_load(
        "raw",
        kind="latency",
        host=server.host,
        port=server.port,
        topic="latency",
        seconds=effort.seconds,
        creates_topic=creates_topic,
    )


def _librdkafka(server: ServerProcess, effort: Effort) -> dict[str, Any]:
    options = {"topic": "one", "message_bytes": 100, "seconds": effort.seconds}
    return run_load("librdkafka", kind="latency", servers=server.address, **options)
