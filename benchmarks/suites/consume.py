"""librdkafka reads records that it has produced, from Tidelog and from its own mock cluster.

The mock keeps 5 MiB of each partition and returns one batch of a partition per response. Therefore the data
is distributed to many partitions, also for Tidelog.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Comparison, Figure
from benchmarks.processes import BrokerProcess, ServerProcess, run_load
from benchmarks.suites.effort import BATCH_BYTES, MEGA, MESSAGE_BYTES, Effort, size_name

TOPICS = 16
PARTITION_BYTES = 4_500_000


def consume(effort: Effort) -> Iterator[Figure]:
    """Measure the throughput of one consumer that reads all partitions from their start."""
    for message_bytes in MESSAGE_BYTES:
        for batch_bytes in BATCH_BYTES:
            with (
                BrokerProcess({"num.partitions": "4"}) as broker,
                ServerProcess("benchmarks.servers.mock_cluster") as mock,
            ):
                for server in (broker, mock):
                    _fill(server, message_bytes, batch_bytes, effort)
                compared = Comparison.of(
                    (_rate(broker, message_bytes, effort), _rate(mock, message_bytes, effort))
                    for _ in range(effort.rounds)
                )
            name = f"consume {size_name(message_bytes)} from {size_name(batch_bytes)} batches, librdkafka"
            yield compared.figure(name, "MB/s", "mock")


def _topics(effort: Effort) -> list[str]:
    return [f"consume-{number}" for number in range(max(1, int(TOPICS * effort.scale)))]


def _fill(server: ServerProcess, message_bytes: int, batch_bytes: int, effort: Effort) -> None:
    for topic in _topics(effort):
        run_load(
            "librdkafka",
            kind="fill",
            servers=server.address,
            topic=topic,
            message_bytes=message_bytes,
            batch_bytes=batch_bytes,
            partition_bytes=PARTITION_BYTES,
        )


def _rate(server: ServerProcess, message_bytes: int, effort: Effort) -> float:
    found = run_load(
        "librdkafka",
        kind="consume",
        servers=server.address,
        topics=_topics(effort),
        message_bytes=message_bytes,
    )
    return float(found["bytes_per_s"]) / MEGA
