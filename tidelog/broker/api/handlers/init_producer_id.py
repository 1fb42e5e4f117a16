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
from tidelog.broker.security.authorization.access import may_access_cluster
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCER_FENCED_FROM_VERSION = 4


class InitProducerIdHandler:
    """Allocates producer ids; `next_producer_id` returns the next one durably."""

    def __init__(
        self,
        next_producer_id: Callable[[], Awaitable[int]],
        transactions: TransactionService,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._next_producer_id = next_producer_id
        self._transactions = transactions

    async def handle(self, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Return an id and an epoch that no other producer has."""
        denial = self._denial(context, request.transactional_id)
        if denial:
            return _error(denial)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            return _error(ErrorCode.INVALID_REQUEST)
        try:
            producer = await self._producer(request)
        except KafkaError as error:
            version = context.header.api_version
            return _error(fencing_error(error.code, version, PRODUCER_FENCED_FROM_VERSION))
        return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)

    def _denial(self, context: RequestContext, transactional_id: str | None) -> ErrorCode:
        """Return the error if the client may not get a producer id; NONE if it may."""
        authorizer, write = self._authorizer, AclOperation.WRITE
        if transactional_id is not None:
            is_allowed = authorizer.is_authorized(
                context, write, AclResourceType.TRANSACTIONAL_ID, transactional_id
            )
            return ErrorCode.NONE if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        is_allowed = may_access_cluster(
            authorizer, context, AclOperation.IDEMPOTENT_WRITE, logs_denial=False
        ) or authorizer.is_authorized_by_type(context, write, AclResourceType.TOPIC)
        return ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

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
