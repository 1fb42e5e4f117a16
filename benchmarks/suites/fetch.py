"""Fetches from the page cache, compared with sendfile of the same number of bytes.

Measured with socket buffers that Linux sizes, and with Kafka's default of 100 KiB, which prevents larger
ones. The reference has the same send buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import BrokerProcess, ServerProcess, run_load
from benchmarks.suites.effort import BUFFERS, KIBIBYTE, MEBIBYTE, MEGA, Effort

FETCH_AT_LEAST = 0.6
FETCH_BYTES = MEBIBYTE
SYSTEM_DEFAULT = "-1"
FILL = {"size_bytes": 64 * MEBIBYTE, "batch_bytes": 16 * KIBIBYTE}


def fetch(effort: Effort) -> Iterator[Figure]:
    """Measure bytes per second of fetches of 1 MiB on one connection."""
    for buffers, settings in BUFFERS.items():
        with (
            BrokerProcess(settings) as broker,
            ServerProcess("benchmarks.servers.sendfile", _reference(settings)) as sendfile,
        ):
            run_load("raw", kind="fill", host=broker.host, port=broker.port, topic="fetch", **FILL)
            compared = Comparison.of(
                (
                    _rate(broker, "fetch", effort, topic="fetch", max_bytes=FETCH_BYTES),
                    _rate(sendfile, "stream", effort, length=FETCH_BYTES),
                )
                for _ in range(effort.rounds)
            )
        title = f"fetch 1 MiB at a time{buffers}"
        yield compared.figure(title, "MB/s", "sendfile", at_least=FETCH_AT_LEAST)


def _reference(settings: Mapping[str, str]) -> list[str]:
    return [str(FETCH_BYTES), settings.get("socket.send.buffer.bytes", SYSTEM_DEFAULT)]


def _rate(server: ServerProcess, kind: str, effort: Effort, **options: Any) -> float:
    found = run_load("raw", kind=kind, host=server.host, port=server.port, seconds=effort.seconds, **options)
    return float(found["bytes_per_s"]) / MEGA
