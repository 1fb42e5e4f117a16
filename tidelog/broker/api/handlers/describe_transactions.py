"""DescribeTransactions (key 65), version 0: transactional ids with their transactions (KIP-664)."""

from __future__ import annotations

from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tidelog.protocol.steps import Steps, each


class DescribeTransactionsHandler:
    """Asks the coordinator for each id."""

    def __init__(self, transactions: TransactionService) -> None:
        self._transactions = transactions

    def handle(
        self, context: RequestContext, request: DescribeTransactionsRequest
    ) -> Steps[DescribeTransactionsResponse]:
        """Answer every id by itself, one that is named twice once; errors are in the reply."""
        ids = dict.fromkeys(request.transactional_ids)
        states = yield from each(self._transactions.describe, ids)
        return DescribeTransactionsResponse(transaction_states=states)
