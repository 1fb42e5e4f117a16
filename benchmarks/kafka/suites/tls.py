"""Throughput and broker CPU of TLS with librdkafka, and of PLAINTEXT on the same brokers as the base."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import (
    KIBIBYTE,
    MEBIBYTE,
    MEGA,
    Better,
    Case,
    Effort,
    Findings,
    Metric,
    Suite,
    size_name,
)
from benchmarks.kafka.suites.librdkafka_loads import TopicShape, fill, produce
from benchmarks.kafka.suites.produce import BATCH_BYTES
from benchmarks.processes import run_load

TOPIC: Final = "encrypted"
PARTITIONS: Final = 6
MESSAGE_BYTES: Final = KIBIBYTE
TOPIC_BYTES: Final = 600 * MEBIBYTE
TLS_NODE: Final = Setup(has_tls=True)

THROUGHPUT: Final = Metric(
    key="megabytes_per_s", name="throughput", unit="MB/s", better=Better.HIGHER, target=1.0
)
CPU: Final = Metric(
    key="cpu_us_per_mib", name="broker CPU per MiB", unit="us", better=Better.LOWER, target=1.0
)


def tls_cases(effort: Effort) -> list[Case]:
    """Return the cases of producing, then those of consuming: each without and with TLS."""
    batches = BATCH_BYTES[1:2] if effort.is_short else BATCH_BYTES
    shapes = list(product((False, True), batches))
    return [
        *(_produce_case(*shape, effort) for shape in shapes),
        *(_consume_case(*shape, effort) for shape in shapes),
    ]


def _produce_case(uses_tls: bool, batch_bytes: int, effort: Effort) -> Case:
    return Case(
        group=f"produce 1 KiB, {PARTITIONS} partitions, {_protocol(uses_tls)}",
        variant=f"{size_name(batch_bytes)} batches",
        metrics=(THROUGHPUT, CPU),
        setup=TLS_NODE,
        turn=partial(_produce, uses_tls, batch_bytes, effort.seconds),
        turn_s=effort.seconds + 1.2,
    )


def _produce(uses_tls: bool, batch_bytes: int, seconds: float, brokers: Brokers) -> Findings:
    produced = produce(_topic_shape(batch_bytes), seconds, brokers, uses_tls=uses_tls)
    mebibytes = produced.size_bytes / MEBIBYTE
    return {
        "megabytes_per_s": produced.megabytes_per_s,
        "cpu_us_per_mib": produced.cpu_s / mebibytes * 1e6,
    }


def _consume_case(uses_tls: bool, batch_bytes: int, effort: Effort) -> Case:
    topic_bytes = int(TOPIC_BYTES * effort.scale)
    return Case(
        group=f"consume 1 KiB, {PARTITIONS} partitions, {_protocol(uses_tls)}",
        variant=f"{size_name(batch_bytes)} batches",
        metrics=(THROUGHPUT, CPU),
        setup=TLS_NODE,
        prepare=partial(fill, _topic_shape(batch_bytes), topic_bytes),
        prepare_s=0.8 + 3.0 * effort.scale,
        turn=partial(_consume, uses_tls, topic_bytes),
        turn_s=0.9 + 1.5 * effort.scale,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _consume(uses_tls: bool, topic_bytes: int, brokers: Brokers) -> Findings:
    cpu_before = brokers.cpu_seconds()
    connection = brokers.connection(uses_tls=uses_tls)
    read = run_load("librdkafka", kind="consume", topics=[TOPIC], message_bytes=MESSAGE_BYTES, **connection)
    cpu_s = brokers.cpu_seconds() - cpu_before
    return {
        "megabytes_per_s": read["bytes_per_s"] / MEGA,
        "cpu_us_per_mib": cpu_s / (topic_bytes / MEBIBYTE) * 1e6,
    }


def _topic_shape(batch_bytes: int) -> TopicShape:
    return TopicShape(TOPIC, PARTITIONS, MESSAGE_BYTES, batch_bytes)


def _protocol(uses_tls: bool) -> str:
    return "TLS" if uses_tls else "PLAINTEXT"


TLS: Final = Suite(
    name="tls",
    what="produce and read at maximum speed with librdkafka over TLS, with the same certificate for both, "
    "and over PLAINTEXT on the same brokers; broker CPU",
    cases=tls_cases,
)
