"""The metrics of the transaction coordinator, under Kafka's names where Kafka has them.

Source: TransactionMarkerChannelManager of Apache Kafka 4.3; the counts of states are Tidelog's own.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.coordinators.transactions.marker_sender import MarkerSender
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.broker.observability.metrics import BrokerMetrics, Reading

_PREFIX = "kafka_coordinator_transaction"


def report_transactions(
    metrics: BrokerMetrics, transactions: TransactionService, markers: MarkerSender
) -> None:
    """Register the metrics of the transactional ids that this node coordinates, by state."""

    def in_state(state: TransactionState) -> Callable[[], Reading]:
        return lambda: transactions.state_counts().get(state, 0)

    metrics.gauge(
        f"{_PREFIX}_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        "Transactions whose markers wait for a partition leader.",
        lambda: markers.transactions_without_leader,
    )
    for state in TransactionState:
        if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
            metrics.gauge(
                f"{_PREFIX}_numtransactionalids{state.value.lower()}",
                f"Transactional ids of this coordinator in state {state.value}.",
                in_state(state),
            )
