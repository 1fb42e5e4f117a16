"""Our clients, aiokafka and librdkafka on the same broker: produce with acks=all, and consume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import BrokerProcess, run_load
from benchmarks.suites.effort import KIBIBYTE, Effort, size_name

OTHERS: Final = ("aiokafka", "confluent_kafka")
MESSAGES: Final = {100: 200_000, KIBIBYTE: 100_000}


def clients(effort: Effort) -> Iterator[Figure]:
    """Measure messages per second with one call per message, values only."""
    with BrokerProcess() as broker:
        for message_bytes, full_count in MESSAGES.items():
            count = int(full_count * effort.scale)
            for kind in ("produce", "consume"):
                rates: dict[str, list[float]] = {client: [] for client in ("tidelog", *OTHERS)}
                for _ in range(effort.rounds):
                    for client, found in rates.items():
                        load = run_load(
                            "clients",
                            client=client,
                            kind=kind,
                            servers=broker.address,
                            topic=f"clients-{message_bytes}",
                            message_bytes=message_bytes,
                            count=count,
                        )
                        found.append(float(load["messages_per_s"]))
                for other in OTHERS:
                    compared = Comparison.of(zip(rates["tidelog"], rates[other], strict=True))
                    name = f"our client, {kind} {size_name(message_bytes)}"
                    yield compared.figure(name, "1/s", other)
