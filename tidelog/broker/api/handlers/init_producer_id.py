"""InitProducerId (key 22), versions 0-5: an id and an epoch for a producer.

- 3: a producer that continues after an error sends its id and epoch (KIP-360)
- 4: PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH (KIP-588)

Ids come from blocks that the metadata log allocates, so no id is given twice, also not after a crash.
Without a transactional id, every call returns a new id. With one, the transaction coordinator decides.

Source: KIP-98.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidelog.broker.api.handlers.fencing import fencing_error
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCER_FENCED_FROM_VERSION = 4


class InitProducerIdHandler:
    """Allocates producer ids; `next_producer_id` returns the next one durably."""

    def __init__(
        self, next_producer_id: Callable[[], Awaitable[int]], transactions: TransactionService
    ) -> None:
        self._next_producer_id = next_producer_id
        self._transactions = transactions

    async def handle(self, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Return an id and an epoch that no other producer has."""
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            return _error(ErrorCode.INVALID_REQUEST)
        try:
            producer = await self._producer(request)
        except KafkaError as error:
            version = context.header.api_version
            return _error(fencing_error(error.code, version, PRODUCER_FENCED_FROM_VERSION))
        return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)

    async def _producer(self, request: InitProducerIdRequest) -> ProducerIdAndEpoch:
        if request.transactional_id is None:
            return ProducerIdAndEpoch(await self._next_producer_id(), 0)
        has_id = request.producer_id != NO_PRODUCER_ID
        return await self._transactions.init_producer(
            request.transactional_id,
            request.transaction_timeout_ms,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if has_id else None,
        )


def _error(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
