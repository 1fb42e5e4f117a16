"""An object store that refuses connections or does not respond: the effect on clients of recent records.

A tiered topic is written and read at its end at a constant rate, alternately with the store available, with
its port closed, and without responses. The ratio compares latencies with and without the outage in the same
round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import run_load
from benchmarks.relay import Relay, relay
from benchmarks.suites.effort import KIBIBYTE, MEBIBYTE, Effort
from benchmarks.tiered_broker import TIERED, TieredBroker, s3_store, tiered_broker

TOPIC: Final = "turns"
BATCH_BYTES: Final = 16 * KIBIBYTE
TURNS_PER_S: Final = 200.0
CREATIONS: Final = 100
PERCENTILE: Final = 0.99
INTERVALS: Final = {
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}
"""Of Kafka's 30 s and 300 s, so that a turn of seconds sees what an outage of hours brings."""
CONFIGS: Final = {**TIERED, "segment.bytes": str(MEBIBYTE)}
RATIO_AT_MOST: Final = 1.5

OUTAGES: Final[dict[str, Callable[[Relay], object]]] = {
    "gone": Relay.refuse,
    "silent": Relay.silence,
}


def tier_outage(effort: Effort) -> Iterator[Figure]:
    """Measure latencies of local produce and consume and of topic creation, with and without the outage."""
    with s3_store() as server, relay(int(server.values["s3.endpoint.url"].rpartition(":")[2])) as proxy:
        store = replace(server, values={**server.values, "s3.endpoint.url": f"http://{proxy.address}"})
        with tiered_broker(store, INTERVALS) as broker:
            broker.create(TOPIC, 1, CONFIGS)
            _measured(broker, effort, "warm-up")
            for outage in OUTAGES:
                yield from _outage(outage, broker, proxy, effort)


def _outage(outage: str, broker: TieredBroker, proxy: Relay, effort: Effort) -> Iterator[Figure]:
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(effort.rounds):
        broker.until_copied(TOPIC, [broker.active_start(TOPIC, 0)])
        calm = _measured(broker, effort, f"calm-{outage}-{number}")
        with _store_is(outage, proxy):
            struck = _measured(broker, effort, f"struck-{outage}-{number}")
        rounds.append((struck, calm))
    names = {
        "produce_p99_us": "produce",
        "consume_p99_us": "consume at the end",
        "create_p99_us": "topic creation",
    }
    for key, name in names.items():
        yield Comparison.of((struck[key], calm[key]) for struck, calm in rounds).figure(
            f"{name} p99, object store {outage}", "us", "store in order", at_most=RATIO_AT_MOST
        )


@contextmanager
def _store_is(outage: str, proxy: Relay) -> Iterator[None]:
    OUTAGES[outage](proxy)
    try:
        yield
    finally:
        proxy.restore()


def _measured(broker: TieredBroker, effort: Effort, name: str) -> dict[str, Any]:
    options = {"topic": TOPIC, "batch_bytes": BATCH_BYTES, "turns_per_s": TURNS_PER_S}
    found = run_load("local_turns", **broker.place, seconds=5 * effort.seconds, **options)
    taken = []
    for number in range(CREATIONS):
        began = perf_counter()
        broker.create(f"{name}-{number}", 1, CONFIGS)
        taken.append((perf_counter() - began) * 1e6)
    return {**found, "create_p99_us": sorted(taken)[int(CREATIONS * PERCENTILE) - 1]}
