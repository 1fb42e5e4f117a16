"""Metrics of a controller and of the cluster, under Kafka's names of KafkaController.

Every controller reports them, active or not, from its own metadata.

Source: ControllerMetadataMetrics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.raft.log import MetadataLog
from tidelog.cluster.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage

_PREFIX: Final = "kafka_controller_kafkacontroller_"


def report_controller(metrics: BrokerMetrics, store: MetadataStore, log: MetadataLog) -> None:
    """Register the metrics of this controller: whether it is active, and the committed offset."""
    metrics.gauge(
        _PREFIX + "activecontrollercount",
        "1 on the active controller, else 0.",
        lambda: float(store.active_epoch is not None),
    )
    metrics.gauge(
        _PREFIX + "lastcommittedrecordoffset",
        "The end of the committed metadata.",
        lambda: log.high_watermark,
    )
    metrics.counter(
        _PREFIX + "newactivecontrollers",
        "The number of changes of the active controller.",
        lambda: store.leadership.leader_changes,
    )


def report_cluster(metrics: BrokerMetrics, image: Callable[[], MetadataImage]) -> None:
    """Register the gauges of the brokers, topics and partitions of `image`."""

    def brokers() -> Iterable[BrokerImage]:
        return image().brokers.values()

    def partitions() -> Iterable[PartitionImage]:
        return (one for topic in image().topics_by_id.values() for one in topic.partitions.values())

    for name, documentation, read in (
        (
            "activebrokercount",
            "Unfenced brokers.",
            lambda: sum(not one.fenced for one in brokers()),
        ),
        ("fencedbrokercount", "Fenced brokers.", lambda: sum(one.fenced for one in brokers())),
        ("globaltopiccount", "Topics of the cluster.", lambda: len(image().topics_by_id)),
        ("globalpartitioncount", "Partitions of the cluster.", lambda: sum(1 for _ in partitions())),
        (
            "offlinepartitionscount",
            "Partitions without a leader.",
            lambda: sum(one.leader == NO_LEADER for one in partitions()),
        ),
        (
            "preferredreplicaimbalancecount",
            "Partitions whose leader is not the preferred replica.",
            lambda: sum(one.leader != one.replicas[0] for one in partitions()),
        ),
    ):
        metrics.gauge(_PREFIX + name, documentation, read)
