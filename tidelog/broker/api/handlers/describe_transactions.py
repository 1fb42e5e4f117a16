"""DescribeTransactions (key 65), version 0: transactional ids with their transactions (KIP-664)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tidelog.protocol.steps import Steps, map_steps


class DescribeTransactionsHandler:
    """Gets the state of each transactional id from the coordinator."""

    def __init__(self, transactions: TransactionService, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._transactions = transactions

    def handle(
        self, context: RequestContext, request: DescribeTransactionsRequest
    ) -> Steps[DescribeTransactionsResponse]:
        """Return the result of every distinct id; errors are in the response."""
        ids = dict.fromkeys(request.transactional_ids)
        states = yield from map_steps(partial(self._describe, context), ids)
        return DescribeTransactionsResponse(transaction_states=states)

    def _describe(self, context: RequestContext, transactional_id: str) -> Steps[TransactionState]:
        """Return a state with the topics that the client may describe."""
        authorizer, describe = self._authorizer, AclOperation.DESCRIBE
        if not authorizer.is_authorized(
            context, describe, AclResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return TransactionState(error_code=code, transactional_id=transactional_id)
        state = self._transactions.describe(transactional_id)
        visible = yield from accessible_names(
            authorizer,
            context,
            (describe, AclResourceType.TOPIC),
            [topic.topic for topic in state.topics],
        )
        return replace(state, topics=tuple(topic for topic in state.topics if topic.topic in visible))
