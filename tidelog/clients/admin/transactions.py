"""Admin calls about transactions and transactional producers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin_requests import AdminRequests, unique_names
from tidelog.clients.groups.coordinator_lookup import TRANSACTION_KEY_TYPE, CoordinatorLookup
from tidelog.clients.metadata.leader_requests import send_to_leaders
from tidelog.clients.transport.failures import raise_for
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.protocol.registry import ApiKey

_DURATION_VERSION = 1
_PATTERN_VERSION = 2
_INIT_HIGHEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One transactional id in a listing; `state` is Kafka's name, such as "Ongoing"."""

    transactional_id: str
    producer_id: ProducerId
    state: str
    coordinator_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id; `start_time_ms` (since 1970) is None if no transaction is open."""

    transactional_id: str
    coordinator_id: BrokerId
    state: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class TransactionAdmin:
    """Transactions, by transactional id or by partition."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[ProducerId] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, TransactionListing]:
        """Return the transactional ids of all brokers that match all filters."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = ListTransactionsRequest(
            state_filters=unique_names(states, "states"),
            producer_id_filters=tuple(producer_ids),
            duration_filter=-1 if duration_ms is None else duration_ms,
            transactional_id_pattern=pattern,
        )
        lowest = 0 if duration_ms is None else _DURATION_VERSION
        lowest = lowest if pattern is None else _PATTERN_VERSION
        brokers = self._requests.client.network.broker_ids
        responses = await asyncio.gather(
            *(self._list_transactions_of(id_, request, lowest, deadline_ms) for id_ in brokers)
        )
        return {listing.transactional_id: listing for listings in responses for listing in listings}

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return state, producer and partitions of each id, or KafkaError(TRANSACTIONAL_ID_NOT_FOUND)."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def describe(lookup: CoordinatorLookup) -> TransactionDescription:
            request = DescribeTransactionsRequest(transactional_ids=(lookup.key,))
            response = await lookup.request(
                request,
                DescribeTransactionsResponse,
                deadline_ms,
            )
            [found] = response.transaction_states
            raise_for(found.error_code, f"transactional id {lookup.key!r}")
            assert lookup.node_id is not None
            return _description(found, lookup.node_id)

        ids = unique_names(transactional_ids, "transactional_ids")
        return await self._requests.for_each_coordinator(ids, describe, deadline_ms, TRANSACTION_KEY_TYPE)

    async def fence_producers(
        self,
        transactional_ids: Iterable[str],
        *,
        transaction_timeout_ms: int = 60_000,
        timeout_ms: int | None = None,
    ) -> dict[str, tuple[ProducerId, ProducerEpoch] | KafkaError]:
        """Fence the producers that use these ids, and abort their open transactions."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def fence(lookup: CoordinatorLookup) -> tuple[ProducerId, ProducerEpoch]:
            request = InitProducerIdRequest(
                transactional_id=lookup.key, transaction_timeout_ms=transaction_timeout_ms
            )
            response = await lookup.request(
                request,
                InitProducerIdResponse,
                deadline_ms,
                highest_version=_INIT_HIGHEST,
            )
            raise_for(response.error_code, f"fence transactional id {lookup.key!r}")
            return response.producer_id, response.producer_epoch

        ids = unique_names(transactional_ids, "transactional_ids")
        return await self._requests.for_each_coordinator(ids, fence, deadline_ms, TRANSACTION_KEY_TYPE)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        coordinator_epoch: int,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Abort a hanging transaction of one partition by a marker, without its coordinator."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        marker = _AbortMarker(producer_id, producer_epoch, max(0, coordinator_epoch))
        (await send_to_leaders(self._requests.client, [partition], marker, deadline_ms)).raise_first()

    async def _list_transactions_of(
        self, broker_id: BrokerId, request: ListTransactionsRequest, lowest_version: int, deadline_ms: int
    ) -> list[TransactionListing]:
        async def call() -> ListTransactionsResponse:
            connection = await self._requests.client.network.connection(broker_id)
            if connection.version_of(ApiKey.LIST_TRANSACTIONS) < lowest_version:
                text = f"broker {broker_id} cannot filter transactions by duration or pattern"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            response = await connection.request(
                request, ListTransactionsResponse, timeout_ms=self._requests.remaining_ms(deadline_ms)
            )
            raise_for(response.error_code, f"transactions of broker {broker_id}")
            return response

        response = await self._requests.retry(call, deadline_ms)
        if response.unknown_state_filters:
            names = ", ".join(response.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown transaction states: {names}")
        return [
            TransactionListing(
                transactional_id=entry.transactional_id,
                producer_id=entry.producer_id,
                state=entry.transaction_state,
                coordinator_id=broker_id,
            )
            for entry in response.transaction_states
        ]


class _AbortMarker:
    """The WriteTxnMarkers request for one hanging transaction."""

    name = "WriteTxnMarkers"
    response = WriteTxnMarkersResponse

    def __init__(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        self._marker = (producer_id, producer_epoch, coordinator_epoch)

    def request(self, topic_partitions: list[TopicPartition]) -> WriteTxnMarkersRequest:
        [(topic, partition)] = topic_partitions
        producer_id, producer_epoch, coordinator_epoch = self._marker
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),),
        )
        return WriteTxnMarkersRequest(markers=(marker,))

    def results(self, response: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, int, None]]:
        for marker in response.markers:
            for topic in marker.topics:
                for entry in topic.partitions:
                    yield TopicPartition(topic.name, entry.partition_index), entry.error_code, None


def _description(found: TransactionState, coordinator_id: BrokerId) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=found.transactional_id,
        coordinator_id=coordinator_id,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        start_time_ms=None if found.transaction_start_time_ms < 0 else found.transaction_start_time_ms,
        partitions=tuple(
            TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions
        ),
    )
