"""InitProducerId (key 22): a number of its own for every idempotent producer (versions 0-5).

Ids come from blocks that the metadata log allocates, so none is given twice, also after a
crash; without a transactional id every call gives a new one. Transactional ids have no
coordinator yet and are refused for good rather than made to retry.

Source: KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.request_context import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import NO_PRODUCER_ID
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class InitProducerIdHandler:
    """Gives out producer ids; `next_producer_id` allocates the next one durably."""

    def __init__(self, next_producer_id: Callable[[], Awaitable[int]]) -> None:
        self._next_producer_id = next_producer_id

    async def handle(self, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Answer with an id and an epoch that no other producer has."""
        if request.transactional_id is not None:
            code = (
                ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.UNSUPPORTED_VERSION
            )
            return _refusal(code)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == -1):
            return _refusal(ErrorCode.INVALID_REQUEST)
        try:
            producer_id = await self._next_producer_id()
        except KafkaError as error:
            return _refusal(error.code)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=-1)
