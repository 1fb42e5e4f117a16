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
    """Gets the state of each transactional id from the coordinator."""

    def __init__(self, transactions: TransactionService) -> None:
        self._transactions = transactions

    def handle(
        self, context: RequestContext, request: DescribeTransactionsRequest
    ) -> Steps[DescribeTransactionsResponse]:
        """Return the result of every distinct id; errors are in the response."""
        ids = dict.fromkeys(request.transactional_ids)
        states = yield from each(self._transactions.describe, ids)
        return DescribeTransactionsResponse(transaction_states=states)
