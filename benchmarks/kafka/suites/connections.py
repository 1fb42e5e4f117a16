"""Cost of a request with few and many connections."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Growth, Metric, Suite
from benchmarks.processes import run_load

TOPIC: Final = "connected"
CONNECTIONS_: Final = (10, 200, 2_000)
GROUP: Final = "one record of 100 B per request"
REQUESTS: Final = Metric(key="requests_per_s", name="requests", unit="1/s", better=Better.HIGHER)
CPU: Final = Metric(key="cpu_us_per_request", name="broker CPU per request", unit="us", better=Better.LOWER)


def connections_cases(effort: Effort) -> list[Case]:
    """Return one case for each number of connections."""
    counts = CONNECTIONS_[:2] if effort.is_short else CONNECTIONS_
    return [
        Case(
            group=GROUP,
            variant=f"{count:,} connections",
            metrics=(REQUESTS, CPU),
            setup=Setup(),
            prepare=lambda brokers: brokers.create_topic(TOPIC, 1),
            prepare_s=0.3,
            turn=partial(one_record_per_request, TOPIC, 1, count, effort.seconds),
            turn_s=effort.seconds + 1.2 + count / 2_000,
            clean_up=lambda brokers: brokers.delete_topic(TOPIC),
        )
        for count in counts
    ]


def one_record_per_request(
    topic: str, partitions: int, connections: int, seconds: float, brokers: Brokers
) -> Findings:
    """Run the load over all nodes, and return requests per second and CPU for each request."""
    return run_load(
        "one_record",
        addresses=[("127.0.0.1", port) for port in brokers.ports],
        topic=topic,
        partitions=partitions,
        connections=connections,
        seconds=seconds,
        pids=brokers.pids,
    )


CONNECTIONS: Final = Suite(
    name="connections",
    what="one record of 100 B per request, one request in flight on each of 10, 200 and 2,000 connections: "
    "requests per second and broker CPU per request",
    cases=connections_cases,
    growths=(
        Growth(
            line=f"{GROUP}: {CPU.name}",
            name="the same, most to fewest connections",
            target=1.2,
        ),
    ),
)
