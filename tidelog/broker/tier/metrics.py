"""The metrics of tiered storage, under Kafka's names.

Source: KIP-405, KIP-930 (names), KIP-956 (quotas), KIP-963 (lags and sizes); RemoteStorageMetrics of
Apache Kafka 4.3. As in all metrics of Tidelog, Kafka's rates are totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.tier.metered_reader import MeteredReader
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.log_manager.manager import RemoteLogManager
from tidelog.remote.tasks.figures import PartitionFigures, RemoteFigures, TopicFigures

_TOPICS = "kafka_server_brokertopicmetrics_"
_MANAGER = "kafka_log_remote_remotelogmanager_"


def report_remote(
    metrics: BrokerMetrics,
    manager: RemoteLogManager,
    reader: MeteredReader,
    index_cache: RemoteIndexCache,
) -> None:
    """Register the metrics of copies, reads, deletions, lags, pools and quotas."""
    _report_topics(metrics, manager.figures)
    _report_partitions(metrics, manager.figures)
    _report_pools(metrics, manager, reader)
    _report_quotas(metrics, manager.figures)
    metrics.gauge(
        "kafka_log_remote_remoteindexcache_size",
        "Bytes of cached indexes of remote segments.",
        lambda: index_cache.size_bytes,
    )


def _report_topics(metrics: BrokerMetrics, figures: RemoteFigures) -> None:
    def by_topic(read: Callable[[TopicFigures], int]) -> Callable[[], Reading]:
        return lambda: {(topic,): read(one) for topic, one in figures.topics.items()}

    for name, documentation, read in (
        ("remotecopybytes", "Bytes copied to remote storage.", by_topic(lambda one: one.copy_bytes)),
        ("remotecopyrequests", "Segments whose copy has started.", by_topic(lambda one: one.copy_requests)),
        ("remotecopyerrors", "Copies that failed.", by_topic(lambda one: one.copy_errors)),
        ("remotefetchbytes", "Bytes read from remote storage.", by_topic(lambda one: one.fetch_bytes)),
        ("remotefetchrequests", "Reads of remote storage.", by_topic(lambda one: one.fetch_requests)),
        ("remotefetcherrors", "Reads that failed.", by_topic(lambda one: one.fetch_errors)),
        (
            "remotedeleterequests",
            "Requested deletions of remote segments.",
            by_topic(lambda one: one.delete_requests),
        ),
        ("remotedeleteerrors", "Deletions that failed.", by_topic(lambda one: one.delete_errors)),
    ):
        metrics.counter(_TOPICS + name, documentation, read, ("topic",))


def _report_partitions(metrics: BrokerMetrics, figures: RemoteFigures) -> None:
    """Register sums over the partitions of a topic whose leader is this node, as in Kafka."""

    def by_topic(read: Callable[[PartitionFigures], int]) -> Callable[[], Reading]:
        def sums() -> Reading:
            totals: dict[tuple[str, ...], float] = defaultdict(float)
            for partition, one in figures.partitions.items():
                totals[(partition.topic,)] += read(one)
            return totals

        return sums

    for name, documentation, read in (
        ("remotecopylagbytes", "Bytes that wait to be copied.", by_topic(lambda one: one.copy_lag_bytes)),
        (
            "remotecopylagsegments",
            "Segments that wait to be copied.",
            by_topic(lambda one: one.copy_lag_segments),
        ),
        ("remotedeletelagbytes", "Remote bytes to be deleted.", by_topic(lambda one: one.delete_lag_bytes)),
        (
            "remotedeletelagsegments",
            "Remote segments to be deleted.",
            by_topic(lambda one: one.delete_lag_segments),
        ),
        ("remotelogsizebytes", "Bytes in remote storage.", by_topic(lambda one: one.log_size_bytes)),
        (
            "remotelogmetadatacount",
            "Remote segments in the metadata.",
            by_topic(lambda one: one.metadata_count),
        ),
        (
            "remotelogsizecomputationtime",
            "Milliseconds to compute the remote size.",
            by_topic(lambda one: one.log_size_computation_time_ms),
        ),
    ):
        metrics.gauge(_TOPICS + name, documentation, read, ("topic",))


def _report_pools(metrics: BrokerMetrics, manager: RemoteLogManager, reader: MeteredReader) -> None:
    for name, documentation, read in (
        (
            "remotelogmanagertasksavgidlepercent",
            "Share of the copying threads that are idle.",
            lambda: manager.copier_pool.idle_share,
        ),
        (
            "remotelogreadertaskqueuesize",
            "Reads that wait for a thread.",
            lambda: manager.reader_pool.pending,
        ),
        (
            "remotelogreaderavgidlepercent",
            "Share of the reading threads that are idle.",
            lambda: manager.reader_pool.idle_share,
        ),
    ):
        metrics.gauge(_MANAGER + name, documentation, read)
    prefix = _MANAGER + "remotelogreaderfetchrateandtimems_"
    metrics.counter(prefix + "count", "Reads that ended.", lambda: reader.reads)
    metrics.counter(prefix + "sum", "Milliseconds that reads took.", lambda: reader.read_time_ms)


def _report_quotas(metrics: BrokerMetrics, figures: RemoteFigures) -> None:
    prefix = "kafka_server_remotelogmanager_"
    for name, documentation, read in (
        (
            "remotecopythrottletime",
            "Milliseconds that copies waited.",
            lambda: figures.copy_throttle_time_ms,
        ),
        (
            "remotefetchthrottletime",
            "Milliseconds that reads waited.",
            lambda: figures.fetch_throttle_time_ms,
        ),
        ("remotecopythrottles", "Copies that waited.", lambda: figures.copy_throttle_count),
        ("remotefetchthrottles", "Reads that waited.", lambda: figures.fetch_throttle_count),
    ):
        metrics.counter(prefix + name, documentation, read)
