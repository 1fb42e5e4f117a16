"""Three nodes, three replicas, acks=all: throughput and latency."""

from __future__ import annotations

from typing import Final

from benchmarks.kafka.brokers import Setup
from benchmarks.kafka.case import KIBIBYTE, MEBIBYTE, Case, Effort, Suite
from benchmarks.kafka.suites.latency import RATES, rate_case
from benchmarks.kafka.suites.produce import librdkafka_case

THREE_NODES: Final = Setup(nodes=3)
SHAPES: Final = (
    (100, 6, 16 * KIBIBYTE),
    (100, 6, 64 * KIBIBYTE),
    (100, 6, MEBIBYTE),
    (KIBIBYTE, 6, 16 * KIBIBYTE),
    (KIBIBYTE, 6, 64 * KIBIBYTE),
    (KIBIBYTE, 6, MEBIBYTE),
    (KIBIBYTE, 1, 16 * KIBIBYTE),
    (KIBIBYTE, 1, MEBIBYTE),
)
SHORT_SHAPES: Final = ((KIBIBYTE, 6, 16 * KIBIBYTE),)


def replicated_cases(effort: Effort) -> list[Case]:
    """Return the cases of throughput, then those of latency."""
    shapes = SHORT_SHAPES if effort.is_short else SHAPES
    throughput = [librdkafka_case(THREE_NODES, *shape, effort) for shape in shapes]
    return [*throughput, *(rate_case(THREE_NODES, rate, effort) for rate in RATES)]


REPLICATED: Final = Suite(
    name="replicated",
    what="three nodes, RF 3, acks=all: produce at maximum speed (6 partitions; 1 partition at 1 KiB), and "
    "latency at 500 and 5,000 records/s",
    cases=replicated_cases,
)
