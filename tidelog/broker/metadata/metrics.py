"""Metrics of the node's metadata: the applied offset, and its snapshots, under Kafka's names."""

from __future__ import annotations

from tidelog.broker.metadata.snapshotter import Snapshotter
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.observability.metrics import BrokerMetrics


def report_metadata(metrics: BrokerMetrics, store: MetadataStore, snapshotter: Snapshotter) -> None:
    """Register the gauge of the last applied offset, and the counters of snapshots."""
    metrics.gauge(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "The last metadata offset that this node has applied.",
        lambda: store.image.offset,
    )
    prefix = "kafka_server_snapshotemitter_"
    metrics.counter(
        prefix + "generated", "Metadata snapshots written.", lambda: snapshotter.snapshots_written
    )
    metrics.counter(prefix + "errors", "Metadata snapshots that failed.", lambda: snapshotter.failures)
    metrics.counter(
        "kafka_server_metadataloader_handleloadsnapshot",
        "Metadata snapshots loaded.",
        lambda: store.snapshots_loaded,
    )
