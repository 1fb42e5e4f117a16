"""Cost of creating many partitions, and of a request when there are many."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Growth, Metric, Suite
from benchmarks.kafka.suites.connections import CPU, REQUESTS, one_record_per_request

TOPIC: Final = "divided"
COUNTS: Final = (10, 2_000)
SHORT_COUNTS: Final = (10, 200)
CONNECTIONS: Final = 10
SETTLE_S: Final = 1.0
"""The remaining work of a broker for new partitions is not a cost of a request."""
GROUP: Final = "one record of 100 B per request, all partitions in turn"
CREATED: Final = Metric(
    key="created_s",
    name="create the topic, until every partition is served",
    unit="s",
    better=Better.LOWER,
)


def partitions_cases(effort: Effort) -> list[Case]:
    """Return one case for each number of partitions."""
    return [
        Case(
            group=GROUP,
            variant=f"{count:,} partitions",
            metrics=(CREATED, REQUESTS, CPU),
            setup=Setup(),
            turn=partial(_turn, count, effort.seconds),
            turn_s=effort.seconds + 2.5 + count / 250,
        )
        for count in (SHORT_COUNTS if effort.is_short else COUNTS)
    ]


def _turn(count: int, seconds: float, brokers: Brokers) -> Findings:
    started = time.perf_counter()
    brokers.create_topic(TOPIC, count)
    brokers.wait_until_served(TOPIC, count)
    created_s = time.perf_counter() - started
    time.sleep(SETTLE_S)
    found = one_record_per_request(TOPIC, count, CONNECTIONS, seconds, brokers)
    brokers.delete_topic(TOPIC)
    return {"created_s": created_s, **found}


PARTITIONS: Final = Suite(
    name="partitions",
    what="a topic of 10 and of 2,000 partitions: time to create it, and broker CPU for a request with one "
    "record of 100 B",
    cases=partitions_cases,
    growths=(Growth(line=f"{GROUP}: {CPU.name}", name="the same, most to fewest partitions", target=1.2),),
)
