"""The metrics of the replica fetchers, under Kafka's names."""

from __future__ import annotations

from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.replication.fetcher_manager import FetcherManager

_PARTITION = ("topic", "partition")


def report_fetchers(metrics: BrokerMetrics, manager: FetcherManager) -> None:
    """Register the lag of this node's followers, their failures, and the bytes that they fetched."""

    def lags() -> Reading:
        return {
            (key.topic, str(key.partition)): partition.lag
            for fetcher in manager.fetchers
            for key, partition in fetcher.core.partitions.items()
            if partition.lag is not None
        }

    prefix = "kafka_server_replicafetchermanager_"
    metrics.gauge(
        prefix + "maxlag", "Largest lag of a follower on this node, in records.", lambda: manager.max_lag
    )
    metrics.gauge(
        prefix + "failedpartitionscount",
        "Followers that are not fetched until their metadata changes.",
        lambda: len(manager.failed_partitions),
    )
    metrics.gauge(
        "kafka_server_fetcherlagmetrics_consumerlag", "Lag of a follower, in records.", lags, _PARTITION
    )
    metrics.counter(
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes of batches fetched from leaders.",
        lambda: manager.bytes_in,
    )
    metrics.counter(
        "kafka_server_brokertopicmetrics_buildremotelogauxstaterequests",
        "Attempts of followers to restart their logs after the offsets in remote storage.",
        lambda: manager.remote_restart_attempts,
    )
    metrics.counter(
        "kafka_server_brokertopicmetrics_buildremotelogauxstateerrors",
        "Attempts to restart logs that failed and are retried.",
        lambda: manager.remote_restart_errors,
    )
