"""Metrics of refused and failed verifications."""

from __future__ import annotations

from tests.support.transactions.transactional_node import T0, TransactionalNode
from tidelog.broker.coordinators.verification.metrics import LATE_TRANSACTION_BUFFER_MS, report_verification
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.protocol.errors import ErrorCode

LONGEST_MS = 900_000


async def test_refused_and_failed_verifications_are_counted() -> None:
    node, metrics = await TransactionalNode().start(), BrokerMetrics()
    report_verification(
        metrics, node.replicas.manager, node.add_partitions_manager, node.clock, lambda: LONGEST_MS
    )

    def value(name: str) -> str:
        text, _ = Exposition(metrics).text()
        (line,) = [one for one in text.decode().splitlines() if one.startswith(name)]
        return line.split()[1]

    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    refused = "kafka_server_addpartitionstotxnmanager_verificationfailures_total"
    await node.produce_one()
    node.clock.now_ms += LONGEST_MS + LATE_TRANSACTION_BUFFER_MS
    assert (value(late), value(refused)) == ("0.0", "0.0")
    node.clock.now_ms += 1
    assert value(late) == "1.0"
    await node.end(T0)
    assert value(late) == "0.0"
    node.coordinator.refusals = {T0: ErrorCode.INVALID_TXN_STATE}
    await node.produce_one(sequence=1)
    assert value(refused) == "1.0"
    await node.stop()
