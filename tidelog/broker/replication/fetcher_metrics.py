"""What is reported of the replica fetchers, under Kafka's names for them."""

from __future__ import annotations

from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.replication.fetcher_manager import FetcherManager

_PARTITION = ("topic", "partition")


def report_fetchers(metrics: BrokerMetrics, manager: FetcherManager) -> None:
    """Have `metrics` report how far this node's followers are behind, and which were given up."""

    def lags() -> Reading:
        return {
            (key.topic, str(key.partition)): partition.lag
            for fetcher in manager.fetchers
            for key, partition in fetcher.core.partitions.items()
            if partition.lag is not None
        }

    prefix = "kafka_server_replicafetchermanager_"
    metrics.gauge(prefix + "maxlag", "Records that the last follower is behind.", lambda: manager.max_lag)
    metrics.gauge(
        prefix + "failedpartitionscount",
        "Followers that wait for their metadata or their disk.",
        lambda: len(manager.failed_partitions),
    )
    metrics.gauge("kafka_server_fetcherlagmetrics_consumerlag", "Records behind.", lags, _PARTITION)
    metrics.counter(
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes of batches copied from leaders.",
        lambda: manager.bytes_in,
    )
    metrics.counter(
        "kafka_server_brokertopicmetrics_buildremotelogauxstaterequests",
        "Attempts of followers to begin anew behind what is in the remote tier.",
        lambda: manager.remote_restart_attempts,
    )
    metrics.counter(
        "kafka_server_brokertopicmetrics_buildremotelogauxstateerrors",
        "Those that failed and are tried again.",
        lambda: manager.remote_restart_errors,
    )
