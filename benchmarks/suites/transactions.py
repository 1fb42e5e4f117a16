"""Transactional producers on three nodes: transactions, and the requests of which they consist.

`python -m benchmarks.kafka transactions` compares the same load with Apache Kafka.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.figures import Figure
from benchmarks.processes import run_load
from benchmarks.suites.effort import Effort
from benchmarks.suites.replication import NODES, three_nodes

PARTITIONS: Final = 6
RATES: Final = {3: 15, 30: 30, 300: 30}
"""Transactions per second by the number of producers: two cores are never busy, so latency is measured."""

KINDS: Final = {
    "transaction": "transaction",
    "first": "first Produce, verified",
    "next": "next Produce",
    "commit": "EndTxn",
}
PERCENTILES: Final = ("p50", "p99")


def transactions(effort: Effort) -> Iterator[Figure]:
    """Measure the median and the 99th percentile of each kind of request in milliseconds."""
    settings: dict[str, Any] = {
        "transaction_state_log_replication_factor": str(NODES),
        "transaction_state_log_min_isr": "2",
        "default_replication_factor": str(NODES),
        "num_partitions": str(PARTITIONS),
    }
    with three_nodes(**settings) as cluster:
        for producers, per_second in RATES.items():
            rounds = [
                run_load(
                    "transactions",
                    servers=cluster.bootstrap_servers,
                    topic="transactions",
                    partitions=PARTITIONS,
                    producers=producers,
                    per_second=per_second,
                    seconds=max(2.0, effort.seconds),
                )
                for _ in range(effort.rounds)
            ]
            for kind, name in KINDS.items():
                for percentile in PERCENTILES:
                    yield Figure(
                        name=f"{name}, {percentile}, {producers} producers",
                        value=statistics.median(each[f"{kind}_{percentile}_ms"] for each in rounds),
                        unit="ms",
                        note=f"{NODES} nodes, acks=all, {per_second} transactions/s",
                    )
