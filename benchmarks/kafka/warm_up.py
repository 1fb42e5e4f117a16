"""Load for a broker that has just started, so that Java's compiler has compiled the measured code."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.kafka.brokers import Brokers
from benchmarks.kafka.case import KIBIBYTE, MEBIBYTE
from benchmarks.kafka.suites.connections import one_record_per_request
from benchmarks.processes import run_load

TOPIC: Final = "warm-up"
PARTITIONS: Final = 6
CONNECTIONS: Final = 20
SLICE_S: Final = 1.5
SHORTEST_SLICE_S: Final = 0.1
"""A load that runs for less sends nothing, and its rate has no meaning."""
ACKS_ALL: Final = -1


def warm_up(brokers: Brokers, seconds: float) -> None:
    """Produce small requests and batches of every size, and consume, for about `seconds`.

    With TLS, every second slice uses it.
    """
    deadline, uses_tls = time.monotonic() + seconds, False
    while True:
        for batch_bytes in (16 * KIBIBYTE, 64 * KIBIBYTE, MEBIBYTE):
            remaining_s = deadline - time.monotonic()
            slice_s = min(SLICE_S, remaining_s / 2)
            if slice_s < SHORTEST_SLICE_S:
                return
            uses_tls = brokers.setup.has_tls and not uses_tls
            _slice(brokers, batch_bytes, slice_s, uses_tls=uses_tls)


def _slice(brokers: Brokers, batch_bytes: int, seconds: float, *, uses_tls: bool) -> None:
    brokers.create_topic(TOPIC, PARTITIONS)
    options = {**brokers.connection(uses_tls=uses_tls), "message_bytes": KIBIBYTE}
    if brokers.setup.nodes == 1:  # where every partition has its leader on the one node
        one_record_per_request(TOPIC, PARTITIONS, CONNECTIONS, seconds, brokers)
    run_load(
        "librdkafka",
        kind="produce",
        topic=TOPIC,
        batch_bytes=batch_bytes,
        seconds=seconds,
        acks=ACKS_ALL,
        **options,
    )
    run_load("librdkafka", kind="consume", topics=[TOPIC], **options)
    brokers.delete_topic(TOPIC)
