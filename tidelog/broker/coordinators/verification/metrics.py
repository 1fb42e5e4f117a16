"""The metrics of transactions at the partitions of a node, under Kafka's names.

Source: ReplicaManager and AddPartitionsToTxnManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.verification.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.partitions.replica_manager import ReplicaManager

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""The time after the longest timeout from which on an open transaction is overdue."""


def report_verification(
    metrics: BrokerMetrics,
    replicas: ReplicaManager,
    manager: AddPartitionsToTxnManager,
    clock: Clock,
    transaction_max_timeout_ms: Callable[[], int],
) -> None:
    """Register the metrics of late transactions and of failed verifications."""

    def late_partitions() -> int:
        before_ms = clock.wall_ms() - transaction_max_timeout_ms() - LATE_TRANSACTION_BUFFER_MS
        return sum(
            one.is_leader and one.log.producers.has_open_transaction_since(before_ms)
            for one in replicas.partitions.values()
        )

    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions of this leader with a transaction that is open for longer than the longest timeout.",
        late_partitions,
    )
    metrics.counter(
        "kafka_server_addpartitionstotxnmanager_verificationfailures",
        "Partitions that could not be verified to be in the transaction of a producer.",
        lambda: manager.failures,
    )
    prefix = "kafka_server_addpartitionstotxnmanager_verification"
    metrics.counter(f"{prefix}s", "Requests that waited for a verification.", lambda: manager.verifications)
    metrics.counter(
        f"{prefix}time_seconds", "The total time of these waits.", lambda: manager.verification_ms / 1000
    )
