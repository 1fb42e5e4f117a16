"""What is reported of transactions at the partitions of a node, under Kafka's names.

Source: ReplicaManager and AddPartitionsToTxnManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.verification.coordinator_questions import CoordinatorQuestions
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.partitions.replica_manager import ReplicaManager

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""What a coordinator gets beyond the longest time-out before a transaction counts as late."""


def report_verification(
    metrics: BrokerMetrics,
    replicas: ReplicaManager,
    questions: CoordinatorQuestions,
    clock: Clock,
    transaction_max_timeout_ms: Callable[[], int],
) -> None:
    """Have `metrics` report transactions that may hang, and partitions that were in none."""

    def late() -> int:
        before_ms = clock.wall_ms() - transaction_max_timeout_ms() - LATE_TRANSACTION_BUFFER_MS
        return sum(
            one.is_leader and one.log.producers.has_open_transaction_since(before_ms)
            for one in replicas.partitions.values()
        )

    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Led partitions where a transaction is open for longer than any may take.",
        late,
    )
    metrics.counter(
        "kafka_server_addpartitionstotxnmanager_verificationfailures",
        "Partitions that were not in the transaction that a producer wrote to, or nobody could tell.",
        lambda: questions.failures,
    )
    prefix = "kafka_server_addpartitionstotxnmanager_verification"
    metrics.counter(f"{prefix}s", "Requests that waited for a verification.", lambda: questions.verifications)
    metrics.counter(
        f"{prefix}timems", "Milliseconds that they waited together.", lambda: questions.verification_ms
    )
