"""EndTxn (key 26), versions 0-5: a producer commits or aborts its transaction.

- 2: PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH (KIP-588)
- 4: TRANSACTION_ABORTABLE (KIP-890)
- 5: the response has the id and epoch of the next transaction (KIP-890)

The response is sent when the decision is committed; the markers are written after that.
"""

from __future__ import annotations

from tidelog.broker.api.handlers.fencing import fencing_error
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.metadata import TRANSACTION_VERSION_2
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

PRODUCER_FENCED_FROM_VERSION = 2
EPOCH_PER_TRANSACTION_FROM_VERSION = 5


class EndTxnHandler:
    """Passes EndTxn to the transaction coordinator."""

    def __init__(self, transactions: TransactionService) -> None:
        self._transactions = transactions

    async def handle(self, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
        """End the transaction; errors are in the response."""
        version = context.header.api_version
        bumps = version >= EPOCH_PER_TRANSACTION_FROM_VERSION
        try:
            producer = await self._transactions.end_transaction(
                request.transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                request.committed,
                TRANSACTION_VERSION_2 if bumps else 0,
            )
        except KafkaError as error:
            return EndTxnResponse(error_code=fencing_error(error.code, version, PRODUCER_FENCED_FROM_VERSION))
        return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
