"""The metrics of the cluster on controllers."""

from __future__ import annotations

from tests.support.metadata.images import creatable, image_after_records, image_with_brokers, with_topics
from tests.support.nodes.exposed_metrics import metric_samples
from tidelog.broker.controller.metrics import report_cluster
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.testing.embedded import EmbeddedCluster

PREFIX = "kafka_controller_kafkacontroller_"


def read(metrics: BrokerMetrics) -> dict[str, float]:
    return metric_samples(metrics, PREFIX)


def test_partitions_without_a_leader_and_brokers_that_are_fenced_are_counted() -> None:
    whole = with_topics(image_with_brokers(1, 2, 3, fenced=[3]), creatable("t", 2, 2), creatable("u", 3, 2))
    metrics = BrokerMetrics()
    image = whole
    report_cluster(metrics, lambda: image)
    assert read(metrics) == {
        "activebrokercount": 2,
        "fencedbrokercount": 1,
        "globaltopiccount": 2,
        "globalpartitioncount": 5,
        "offlinepartitionscount": 0,
        "preferredreplicaimbalancecount": 0,
    }
    topic = whole.topics_by_name["u"]
    second = topic.partitions[1].replicas[1]
    moved = [
        PartitionChangeRecord(partition_id=0, topic_id=topic.id, leader=-1),
        PartitionChangeRecord(partition_id=1, topic_id=topic.id, leader=second),
    ]
    image = image_after_records(moved, whole, whole.offset + 2)
    values = read(metrics)
    assert (values["offlinepartitionscount"], values["preferredreplicaimbalancecount"]) == (1, 2)


def test_a_node_reports_the_cluster_as_its_controller_knows_it() -> None:
    with EmbeddedCluster() as cluster:
        values = cluster.run(lambda node: read(node.metrics))
    assert (values["activebrokercount"], values["offlinepartitionscount"]) == (1, 0)
