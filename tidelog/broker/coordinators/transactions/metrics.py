"""What a transaction coordinator reports, under Kafka's names where Kafka has them.

Source: TransactionMarkerChannelManager of Apache Kafka 4.3; the counts of states are our own.
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
    """Have `metrics` report the transactional ids that are coordinated here, by state."""

    def in_state(state: TransactionState) -> Callable[[], Reading]:
        return lambda: transactions.state_counts().get(state, 0)

    metrics.gauge(
        f"{_PREFIX}_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        "Transactions that wait for a leader to write their markers.",
        lambda: markers.unplaced,
    )
    for state in TransactionState:
        if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
            metrics.gauge(
                f"{_PREFIX}_numtransactionalids{state.value.lower()}",
                f"Transactional ids coordinated here that are {state.value}.",
                in_state(state),
            )
