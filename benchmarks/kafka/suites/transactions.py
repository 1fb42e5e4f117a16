"""Latency of transactions and of their requests with few and many transactional producers."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Metric, Suite
from benchmarks.processes import run_load
from benchmarks.suites.transactions import KINDS, PARTITIONS, PERCENTILES, RATES

TOPIC: Final = "transactions"


OLDER_CLIENT_KINDS: Final = {"add": "AddPartitionsToTxn", "transaction": KINDS["transaction"]}
"""What is measured with clients that add partitions to the transaction themselves."""


def transaction_cases(effort: Effort) -> list[Case]:
    """Return two cases for each number of producers, on one node and on three."""
    return [
        _case(setup, producers, effort, adds_partitions=adds_partitions)
        for setup in (Setup(), Setup(nodes=3))
        for adds_partitions in (False, True)
        for producers in RATES
    ]


def _case(setup: Setup, producers: int, effort: Effort, *, adds_partitions: bool) -> Case:
    where = "1 node" if setup.nodes == 1 else f"{setup.nodes} nodes, RF {setup.nodes}"
    if adds_partitions:
        where = f"older clients, {where}"
    return Case(
        group=f"{producers} transactional producers, {where}",
        variant="",
        metrics=tuple(
            Metric(
                key=f"{kind}_{percentile}_ms",
                name=name,
                variant=percentile,
                unit="ms",
                better=Better.LOWER,
            )
            for kind, name in (OLDER_CLIENT_KINDS if adds_partitions else KINDS).items()
            for percentile in PERCENTILES
        ),
        setup=setup,
        prepare=lambda brokers: brokers.create_topic(TOPIC, PARTITIONS),
        prepare_s=0.5,
        turn=partial(_turn, producers, effort.rate_seconds, adds_partitions),
        turn_s=effort.rate_seconds + 3.0 + producers / 100,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _turn(producers: int, seconds: float, adds_partitions: bool, brokers: Brokers) -> Findings:
    found = run_load(
        "transactions",
        servers=brokers.addresses,
        topic=TOPIC,
        partitions=PARTITIONS,
        producers=producers,
        per_second=RATES[producers],
        seconds=seconds,
        adds_partitions=adds_partitions,
    )
    return {name: value for name, value in found.items() if isinstance(value, float)}


TRANSACTIONS: Final = Suite(
    name="transactions",
    what="3, 30 and 300 transactional producers (transaction.version 2) at 15 to 30 transactions/s, each of "
    "two requests to two partitions: the whole transaction, the first Produce to a partition (with its "
    "verification), the next one, and EndTxn; AddPartitionsToTxn of older clients; one node, "
    "and three with RF 3",
    cases=transaction_cases,
)
