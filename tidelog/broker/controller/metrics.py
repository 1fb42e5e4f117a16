"""What a controller reports of the cluster, under Kafka's names of KafkaController.

Every controller reports it, active or not, of the metadata that it knows.

Source: ControllerMetadataMetrics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.cluster.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage


def report_cluster(metrics: BrokerMetrics, image: Callable[[], MetadataImage]) -> None:
    """Have `metrics` report the brokers, topics and partitions of `image`, and which have no leader."""

    def brokers() -> Iterable[BrokerImage]:
        return image().brokers.values()

    def partitions() -> Iterable[PartitionImage]:
        return (one for topic in image().topics_by_id.values() for one in topic.partitions.values())

    prefix = "kafka_controller_kafkacontroller_"
    for name, documentation, read in (
        ("activebrokercount", "Brokers that serve.", lambda: sum(not one.fenced for one in brokers())),
        ("fencedbrokercount", "Those that are fenced.", lambda: sum(one.fenced for one in brokers())),
        ("globaltopiccount", "Topics of the cluster.", lambda: len(image().topics_by_id)),
        ("globalpartitioncount", "Partitions of the cluster.", lambda: sum(1 for _ in partitions())),
        (
            "offlinepartitionscount",
            "Partitions without a leader.",
            lambda: sum(one.leader == NO_LEADER for one in partitions()),
        ),
        (
            "preferredreplicaimbalancecount",
            "Partitions that are not led by the first of their replicas.",
            lambda: sum(one.leader != one.replicas[0] for one in partitions()),
        ),
    ):
        metrics.gauge(prefix + name, documentation, read)
