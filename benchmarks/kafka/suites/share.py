"""Throughput of share groups that read a topic from its start, with few and many members."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import KIBIBYTE, MEBIBYTE, Better, Case, Effort, Findings, Metric, Suite, size_name
from benchmarks.kafka.suites.librdkafka_loads import TopicShape, fill
from benchmarks.processes import run_load

TOPIC: Final = "shared"
PARTITIONS: Final = 6
BATCH_BYTES: Final = 64 * KIBIBYTE
SHAPES: Final = ((100, 20 * MEBIBYTE), (KIBIBYTE, 100 * MEBIBYTE))
"""The size of a record, and of the topic."""
MEMBERS: Final = (1, 6, 60)

SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

METRICS: Final = (
    Metric(key="records_per_s", name="accepted records", unit="1/s", better=Better.HIGHER, target=1.0),
    Metric(key="cpu_us_per_fetch", name="broker CPU per ShareFetch", unit="us", better=Better.LOWER),
    Metric(key="cpu_us_per_record", name="broker CPU per record", unit="us", better=Better.LOWER),
)


def share_cases(effort: Effort) -> list[Case]:
    """Return one case for each size of records and number of members."""
    shapes = SHAPES[1:] if effort.is_short else SHAPES
    members = MEMBERS[1:2] if effort.is_short else MEMBERS
    return [_case(*shape, count, effort) for shape in shapes for count in members]


def _case(message_bytes: int, topic_bytes: int, members: int, effort: Effort) -> Case:
    topic_bytes = int(topic_bytes * effort.scale)
    shape = TopicShape(TOPIC, PARTITIONS, message_bytes, BATCH_BYTES)
    return Case(
        group=f"share group, {size_name(message_bytes)}",
        variant="1 member" if members == 1 else f"{members} members",
        metrics=METRICS,
        setup=Setup(settings=tuple(SETTINGS.items())),
        prepare=partial(_prepare, shape, topic_bytes, members),
        prepare_s=2.0 + 2.0 * effort.scale,
        turn=partial(_turn, shape, topic_bytes, members),
        turn_s=1.0 + 3.0 * effort.scale,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _prepare(shape: TopicShape, topic_bytes: int, members: int, brokers: Brokers) -> None:
    """Fill the topic, and run the load once, so that Java's compiler has compiled the code."""
    fill(shape, topic_bytes, brokers)
    _turn(shape, topic_bytes, members, brokers)


def _turn(shape: TopicShape, topic_bytes: int, members: int, brokers: Brokers) -> Findings:
    records = topic_bytes // shape.message_bytes // PARTITIONS * PARTITIONS
    return run_load(
        "share",
        host="127.0.0.1",
        port=brokers.ports[0],
        topic=TOPIC,
        members=members,
        partitions=PARTITIONS,
        records=records,
        pids=brokers.pids,
    )


SHARE: Final = Suite(
    name="share",
    what="share groups of 1, 6 and 60 members that read a topic of six partitions from its start, with one "
    "ShareFetch in flight for each member, which accepts the records of the response before it",
    cases=share_cases,
)
