"""The metrics of tiered storage, under Kafka's names.

Source: KIP-405, KIP-930 (names), KIP-956 (quotas), KIP-963 (lags and sizes); RemoteStorageMetrics of
Apache Kafka 4.3. As in all metrics of Tidelog, Kafka's rates are totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.tier.metered_reader import MeteredReader
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.log_manager.manager import RemoteLogManager
from tidelog.remote.tasks.figures import PartitionFigures, RemoteFigures, TopicFigures

if TYPE_CHECKING:
    from tidelog.remote.objects.manager import ObjectStorageManager

_TOPICS = "kafka_server_brokertopicmetrics_"
_STORE = "tidelog_tier_store_"
_CHUNKS = "tidelog_tier_chunk_cache_"
_MANAGER = "kafka_log_remote_remotelogmanager_"


def report_remote(
    metrics: BrokerMetrics,
    manager: RemoteLogManager,
    reader: MeteredReader,
    index_cache: RemoteIndexCache,
    storage: ObjectStorageManager,
) -> None:
    """Register the metrics of copies, reads, deletions, lags, pools and quotas."""
    _report_topics(metrics, manager.figures)
    _report_partitions(metrics, manager.figures)
    _report_pools(metrics, manager, reader)
    _report_quotas(metrics, manager.figures)
    _report_store(metrics, storage)
    metrics.gauge(
        "kafka_log_remote_remoteindexcache_size",
        "Bytes of cached indexes of remote segments.",
        lambda: index_cache.size_bytes,
    )


def _report_topics(metrics: BrokerMetrics, figures: RemoteFigures) -> None:
    """Register the totals of each topic."""

    def counter(name: str, documentation: str, read: Callable[[TopicFigures], int]) -> None:
        def by_topic() -> Reading:
            return {(topic,): read(topic_figures) for topic, topic_figures in figures.topics.items()}

        metrics.counter(_TOPICS + name, documentation, by_topic, ("topic",))

    counter("remotecopybytes", "Bytes copied to remote storage.", lambda topic: topic.copy_bytes)
    counter("remotecopyrequests", "Segments whose copy has started.", lambda topic: topic.copy_requests)
    counter("remotecopyerrors", "Copies that failed.", lambda topic: topic.copy_errors)
    counter("remotefetchbytes", "Bytes read from remote storage.", lambda topic: topic.fetch_bytes)
    counter("remotefetchrequests", "Reads of remote storage.", lambda topic: topic.fetch_requests)
    counter("remotefetcherrors", "Reads that failed.", lambda topic: topic.fetch_errors)
    counter(
        "remotefetchdamages",
        "Reads that failed because the stored bytes are damaged; not a metric of Kafka.",
        lambda topic: topic.fetch_damages,
    )
    counter(
        "remotedeleterequests", "Requested deletions of remote segments.", lambda topic: topic.delete_requests
    )
    counter("remotedeleteerrors", "Deletions that failed.", lambda topic: topic.delete_errors)


def _report_partitions(metrics: BrokerMetrics, figures: RemoteFigures) -> None:
    """Register sums over the partitions of a topic whose leader is this node, as in Kafka."""

    def gauge(name: str, documentation: str, read: Callable[[PartitionFigures], float]) -> None:
        def sums_by_topic() -> Reading:
            sums: dict[tuple[str, ...], float] = defaultdict(float)
            for partition, partition_figures in figures.partitions.items():
                sums[(partition.topic,)] += read(partition_figures)
            return sums

        metrics.gauge(_TOPICS + name, documentation, sums_by_topic, ("topic",))

    gauge("remotecopylagbytes", "Bytes that wait to be copied.", lambda each: each.copy_lag_bytes)
    gauge("remotecopylagsegments", "Segments that wait to be copied.", lambda each: each.copy_lag_segments)
    gauge("remotedeletelagbytes", "Remote bytes to be deleted.", lambda each: each.delete_lag_bytes)
    gauge("remotedeletelagsegments", "Remote segments to be deleted.", lambda each: each.delete_lag_segments)
    gauge("remotelogsizebytes", "Bytes in remote storage.", lambda each: each.log_size_bytes)
    gauge("remotelogmetadatacount", "Remote segments in the metadata.", lambda each: each.metadata_count)
    gauge(
        "remotelogsizecomputationtime_seconds",
        "Time to compute the remote size.",
        lambda each: each.log_size_computation_time_ms / 1000,
    )


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
    metrics.counter(_MANAGER + "remotelogreaderfetches", "Reads that ended.", lambda: reader.reads)
    metrics.counter(
        _MANAGER + "remotelogreaderfetchtime_seconds",
        "Time that reads took.",
        lambda: reader.read_time_ms / 1000,
    )


def _report_store(metrics: BrokerMetrics, storage: ObjectStorageManager) -> None:
    """Register the requests to the object store and the cache of chunks, which Kafka does not have."""
    activity, cache = storage.activity, storage.chunk_cache
    if activity is not None:

        def requests() -> Reading:
            return {
                (topic, kind.value): traffic.requests for (topic, kind), traffic in activity.traffic().items()
            }

        def size_bytes() -> Reading:
            return {
                (topic, kind.value): traffic.size_bytes
                for (topic, kind), traffic in activity.traffic().items()
            }

        labels = ("topic", "kind")
        metrics.counter(_STORE + "requests", "Requests to the object store.", requests, labels)
        metrics.counter(_STORE + "bytes", "Bytes of objects that were sent or received.", size_bytes, labels)
        metrics.gauge(
            _STORE + "failures",
            "Failed attempts of the outage that continues; 0 if there is none.",
            lambda: {(kind.value,): failures for kind, failures in activity.failures().items()},
            ("kind",),
        )
    if cache is not None:
        figures = cache.figures
        for name, documentation, read in (
            ("hits", "Reads of cached chunks.", lambda: figures.hits),
            ("misses", "Reads of chunks that were not cached yet.", lambda: figures.misses),
            ("evictions", "Chunks that were removed to make room.", lambda: figures.evictions),
            ("prefetches", "Chunks that were fetched ahead.", lambda: figures.prefetches),
        ):
            metrics.counter(_CHUNKS + name, documentation, read)
        metrics.gauge(_CHUNKS + "bytes", "Bytes of cached chunks.", lambda: cache.cached_bytes)


def _report_quotas(metrics: BrokerMetrics, figures: RemoteFigures) -> None:
    prefix = "kafka_server_remotelogmanager_"
    for name, documentation, read in (
        (
            "remotecopythrottletime_seconds",
            "Time that copies waited.",
            lambda: figures.copy_throttle_time_ms / 1000,
        ),
        (
            "remotefetchthrottletime_seconds",
            "Time that reads waited.",
            lambda: figures.fetch_throttle_time_ms / 1000,
        ),
        ("remotecopythrottles", "Copies that waited.", lambda: figures.copy_throttle_count),
        ("remotefetchthrottles", "Reads that waited.", lambda: figures.fetch_throttle_count),
    ):
        metrics.counter(prefix + name, documentation, read)
