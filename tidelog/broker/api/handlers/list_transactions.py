"""ListTransactions (key 66), versions 0-2: the transactional ids of this coordinator (KIP-664).

- 1: ids whose transaction is older than a duration (KIP-994)
- 2: ids that match a pattern (KIP-1152)
"""

from __future__ import annotations

from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.broker.coordinators.transactions.administration import TransactionFilter
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.protocol.steps import Steps

_STATES = {state.value: state for state in TransactionState}


class ListTransactionsHandler:
    """Gets the transactional ids of the coordinator."""

    def __init__(self, transactions: TransactionService, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._transactions = transactions

    def handle(
        self, context: RequestContext, request: ListTransactionsRequest
    ) -> Steps[ListTransactionsResponse]:
        """Return the ids. Raise KafkaError INVALID_REGULAR_EXPRESSION, COORDINATOR_LOAD_IN_PROGRESS."""
        names = request.state_filters
        pattern = request.transactional_id_pattern
        filter_by = TransactionFilter(
            states=frozenset(_STATES[name] for name in names if name in _STATES) if names else None,
            producer_ids=frozenset(request.producer_id_filters),
            duration_ms=request.duration_filter,
            pattern=RegularExpression(pattern) if pattern else None,
        )
        states = tuple((yield from self._transactions.list(filter_by)))
        visible = yield from accessible_names(
            self._authorizer,
            context,
            (AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID),
            [state.transactional_id for state in states],
        )
        return ListTransactionsResponse(
            unknown_state_filters=tuple(name for name in names if name not in _STATES),
            transaction_states=tuple(state for state in states if state.transactional_id in visible),
        )
