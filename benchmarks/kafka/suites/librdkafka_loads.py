"""The loads of librdkafka on one topic that several suites use."""

from __future__ import annotations

from typing import Final, NamedTuple

from benchmarks.kafka.brokers import Brokers
from benchmarks.kafka.case import MEGA
from benchmarks.processes import run_load

ACKS_ALL: Final = -1


class TopicShape(NamedTuple):
    """A topic, and the records and batches in it."""

    topic: str
    partitions: int
    message_bytes: int
    batch_bytes: int


class ProduceFindings(NamedTuple):
    """The throughput of a load, its size, and the CPU time of the brokers."""

    megabytes_per_s: float
    size_bytes: int
    cpu_s: float


def produce(
    shape: TopicShape, seconds: float, brokers: Brokers, *, uses_tls: bool = False
) -> ProduceFindings:
    """Create the topic, write to it for `seconds` at maximum speed with acks=all, and delete it."""
    brokers.create_topic(shape.topic, shape.partitions)
    brokers.wait_until_served(shape.topic, shape.partitions)
    cpu_before = brokers.cpu_seconds()
    load = run_load(
        "librdkafka",
        kind="produce",
        topic=shape.topic,
        message_bytes=shape.message_bytes,
        batch_bytes=shape.batch_bytes,
        seconds=seconds,
        acks=ACKS_ALL,
        **brokers.connection(uses_tls=uses_tls),
    )
    cpu_s = brokers.cpu_seconds() - cpu_before
    brokers.delete_topic(shape.topic)
    return ProduceFindings(load["bytes_per_s"] / MEGA, load["messages"] * shape.message_bytes, cpu_s)


def fill(shape: TopicShape, topic_bytes: int, brokers: Brokers) -> None:
    """Create the topic and write `topic_bytes` to it, the same to each partition."""
    brokers.create_topic(shape.topic, shape.partitions)
    brokers.wait_until_served(shape.topic, shape.partitions)
    run_load(
        "librdkafka",
        kind="fill",
        topic=shape.topic,
        message_bytes=shape.message_bytes,
        batch_bytes=shape.batch_bytes,
        partition_bytes=topic_bytes // shape.partitions,
        acks=ACKS_ALL,
        **brokers.connection(),
    )
