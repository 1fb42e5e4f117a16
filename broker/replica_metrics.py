"""What is reported of the partitions on a node, under the names of Kafka's ReplicaManager and Log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.metrics import BrokerMetrics, Reading
from broker.partition import Partition
from broker.replica_manager import ReplicaManager
from cluster.image import NO_LEADER, MetadataImage, PartitionImage

_PARTITION = ("topic", "partition")


def report_replicas(
    metrics: BrokerMetrics, replicas: ReplicaManager, image: Callable[[], MetadataImage]
) -> None:
    """Have `metrics` report counts of partitions and the size and bounds of every log."""
    _report_logs(metrics, replicas)
    node_id = replicas.node_id

    def placed() -> Iterator[PartitionImage]:
        """What the metadata says of the partitions that have a replica here."""
        for topic in image().topics_by_name.values():
            yield from (one for one in topic.partitions.values() if node_id in one.replicas)

    def count(condition: Callable[[PartitionImage], bool]) -> Callable[[], Reading]:
        return lambda: sum(map(condition, placed()))

    def under_min_isr() -> Reading:
        return sum(
            len(one.in_sync_replicas) < one.log.config.min_insync_replicas
            for one in replicas.partitions.values()
            if one.leader_id == node_id
        )

    def is_under_replicated(one: PartitionImage) -> bool:
        return one.leader == node_id and len(one.isr) < len(one.replicas)

    prefix = "kafka_server_replicamanager_"
    for name, documentation, read in (
        ("partitioncount", "Partitions with a replica here.", count(lambda one: True)),
        ("leadercount", "Partitions led from here.", count(lambda one: one.leader == node_id)),
        ("offlinereplicacount", "Partitions without a leader.", count(lambda one: one.leader == NO_LEADER)),
        ("underreplicatedpartitions", "Led ones that lack an in-sync replica.", count(is_under_replicated)),
        ("underminisrpartitioncount", "Led ones that refuse acks=all.", under_min_isr),
    ):
        metrics.gauge(prefix + name, documentation, read)
    metrics.gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that cannot be used.",
        lambda: len(replicas.logs.directories) - len(replicas.logs.online_directories),
    )


def _report_logs(metrics: BrokerMetrics, replicas: ReplicaManager) -> None:
    def by_partition(read: Callable[[Partition], int]) -> Callable[[], Reading]:
        return lambda: {
            (key.topic, str(key.partition)): read(one) for key, one in replicas.partitions.items()
        }

    for name, documentation, read in (
        ("size", "Bytes of the log on disk.", by_partition(lambda one: one.log.size_bytes)),
        ("logstartoffset", "First offset of the log.", by_partition(lambda one: one.log.log_start_offset)),
        ("logendoffset", "Offset of the next record.", by_partition(lambda one: one.log.log_end_offset)),
        ("numlogsegments", "Segments of the log.", by_partition(lambda one: len(one.log.segments))),
    ):
        metrics.gauge("kafka_log_log_" + name, documentation, read, _PARTITION)
