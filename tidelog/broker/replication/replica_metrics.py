"""The metrics of a node's partitions, under Kafka's names of ReplicaManager, Partition and Log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.fetcher_manager import FetcherManager
from tidelog.broker.replication.fetcher_metrics import report_fetchers
from tidelog.cluster.replication.leader_state import LeaderState

_PARTITION = ("topic", "partition")


def report_replicas(
    metrics: BrokerMetrics, replicas: ReplicaManager, fetchers: FetcherManager | None = None
) -> None:
    """Register counts of partitions, the state of each leader partition, every log, and the fetchers."""
    _report_counts(metrics, replicas)
    _report_partitions(metrics, replicas)
    _report_logs(metrics, replicas)
    if fetchers is not None:
        report_fetchers(metrics, fetchers)


def _leaders(replicas: ReplicaManager) -> Iterator[LeaderState]:
    return (one.leader for one in replicas.partitions.values() if one.leader is not None)


def _report_counts(metrics: BrokerMetrics, replicas: ReplicaManager) -> None:
    def count(condition: Callable[[LeaderState], bool]) -> Callable[[], Reading]:
        return lambda: sum(map(condition, _leaders(replicas)))

    prefix = "kafka_server_replicamanager_"
    for name, documentation, read in (
        ("partitioncount", "Partitions with a replica on this node.", lambda: len(replicas.partitions)),
        ("leadercount", "Partitions whose leader is this node.", count(lambda one: True)),
        ("offlinereplicacount", "Replicas that cannot be used.", lambda: replicas.unavailable_count),
        (
            "underreplicatedpartitions",
            "Leader partitions with fewer in-sync replicas than replicas.",
            count(lambda one: one.is_under_replicated),
        ),
        (
            "underminisrpartitioncount",
            "Leader partitions that reject acks=all.",
            count(lambda one: one.is_under_min_isr),
        ),
        (
            "atminisrpartitioncount",
            "Leader partitions that reject acks=all after the loss of one more replica.",
            count(lambda one: one.is_at_min_isr),
        ),
        (
            "reassigningpartitions",
            "Leader partitions that are being reassigned.",
            count(lambda one: one.is_reassigning),
        ),
    ):
        metrics.gauge(prefix + name, documentation, read)
    leadership = replicas.leadership
    for name, documentation, read in (
        ("isrexpands", "Replicas that joined an ISR.", lambda: leadership.isr_expands),
        ("isrshrinks", "Times that replicas left an ISR.", lambda: leadership.isr_shrinks),
        ("failedisrupdates", "Updates of an ISR that failed.", lambda: leadership.failed_isr_updates),
    ):
        metrics.counter(prefix + name, documentation, read)
    metrics.gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that cannot be used.",
        lambda: len(replicas.logs.directories) - len(replicas.logs.directories.online),
    )


def _report_partitions(metrics: BrokerMetrics, replicas: ReplicaManager) -> None:
    def by_leader(read: Callable[[LeaderState], int]) -> Callable[[], Reading]:
        return lambda: {
            (key.topic, str(key.partition)): read(one.leader)
            for key, one in replicas.partitions.items()
            if one.leader is not None
        }

    for name, documentation, read in (
        ("replicascount", "Replicas of a leader partition.", by_leader(lambda one: one.replication_factor)),
        (
            "insyncreplicascount",
            "In-sync replicas of a leader partition.",
            by_leader(lambda one: len(one.isr)),
        ),
        (
            "underreplicated",
            "Whether a replica is not in sync.",
            by_leader(lambda one: one.is_under_replicated),
        ),
        ("underminisr", "Whether acks=all is rejected.", by_leader(lambda one: one.is_under_min_isr)),
        (
            "atminisr",
            "Whether the ISR has exactly min.insync.replicas members.",
            by_leader(lambda one: one.is_at_min_isr),
        ),
    ):
        metrics.gauge("kafka_cluster_partition_" + name, documentation, read, _PARTITION)


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
    metrics.gauge(
        "kafka_cluster_partition_laststableoffsetlag",
        "Last stable offset's distance to the high watermark, caused by open transactions.",
        by_partition(lambda one: one.log.high_watermark - one.log.last_stable_offset),
        _PARTITION,
    )
