"""Counts and sizes of the partitions on a node."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.replicas.replica_manager import NODE, Replicas
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.replication.replica_metrics import report_replicas
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord


def read(metrics: BrokerMetrics) -> dict[str, float]:
    text, _ = Exposition(metrics).text()
    return {
        sample.name
        + ",".join(f" {value}" for _, value in sorted(sample.labels.items(), reverse=True)): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_partitions_are_counted_by_their_state_in_the_metadata() -> None:
    replicas = Replicas()
    metrics = BrokerMetrics()
    report_replicas(metrics, replicas.manager)
    replicas.create("whole", partitions=3)
    topic_id = replicas.create("shared", isr=(NODE, 2, 3), min_insync_replicas="2")
    prefix = "kafka_server_replicamanager_"
    values = read(metrics)
    assert values[prefix + "partitioncount"] == values[prefix + "leadercount"] == 4
    assert values[prefix + "underreplicatedpartitions"] == values[prefix + "underminisrpartitioncount"] == 0
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(NODE,)))
    values = read(metrics)
    assert values[prefix + "underreplicatedpartitions"] == values[prefix + "underminisrpartitioncount"] == 1
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1))
    values = read(metrics)
    assert values[prefix + "offlinereplicacount"] == 0
    assert values[prefix + "leadercount"] == 3
    assert values["kafka_log_logmanager_offlinelogdirectorycount"] == 0


def test_every_log_reports_its_size_and_bounds() -> None:
    replicas = Replicas()
    metrics = BrokerMetrics()
    report_replicas(metrics, replicas.manager)
    replicas.create("t", partitions=2)
    builder = BatchBuilder()
    for _ in range(5):
        builder.append(NOW_MS, b"k", b"v")
    batch = builder.build()
    replicas.manager.partition(TopicPartition("t", 1)).append(batch, 1, NOW_MS)
    values = read(metrics)
    assert values["kafka_log_log_size t, 1"] == len(batch)
    assert values["kafka_log_log_size t, 0"] == 0
    assert values["kafka_log_log_logendoffset t, 1"] == 5
    assert values["kafka_log_log_logstartoffset t, 1"] == 0
    assert values["kafka_log_log_numlogsegments t, 1"] == 1
