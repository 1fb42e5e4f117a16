"""A leader and a coordinator on real sockets; a test defines their responses to a transactional producer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.support.network.scripted_broker import (
    ReceivedRequest,
    ScriptedBroker,
    responses_in_order,
    scripted_brokers,
)
from tests.support.transactions.producers import (
    add_offsets_response,
    add_partitions_response,
    end_txn_response,
    init_producer_id_response,
    txn_offset_commit_response,
)
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.api_versions import FinalizedFeatureKey
from tidelog.protocol.messages.end_txn import EndTxnResponse
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tidelog.protocol.registry import ApiKey

P0 = TopicPartition("tides", 0)
GROUP = ConsumerGroupMetadata("harbour", 3, "member")


def produce_response(code: ErrorCode = ErrorCode.NONE) -> ProduceResponse:
    entry = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
    return ProduceResponse(responses=(TopicProduceResponse(name="tides", partition_responses=(entry,)),))


class TransactionalBrokers:
    """Two brokers: the first leads the partition, the second coordinates transactions and groups."""

    def __init__(self, brokers: list[ScriptedBroker]) -> None:
        self.leader, self.coordinator = brokers
        self.epoch = 0
        for broker in brokers:
            broker.handlers[ApiKey.FIND_COORDINATOR] = self._find_coordinator
        self.leader.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response())
        handlers = self.coordinator.handlers
        handlers[ApiKey.INIT_PRODUCER_ID] = self._initialize
        handlers[ApiKey.ADD_PARTITIONS_TO_TXN] = responses_in_order(add_partitions_response(P0))
        handlers[ApiKey.ADD_OFFSETS_TO_TXN] = responses_in_order(add_offsets_response())
        handlers[ApiKey.TXN_OFFSET_COMMIT] = responses_in_order(
            txn_offset_commit_response({P0: ErrorCode.NONE})
        )
        handlers[ApiKey.END_TXN] = self._end_transaction

    def _find_coordinator(self, request: ReceivedRequest) -> FindCoordinatorResponse:
        [key] = request.message.coordinator_keys
        coordinator = Coordinator(key=key, node_id=2, host="127.0.0.1", port=self.coordinator.port)
        return FindCoordinatorResponse(coordinators=(coordinator,))

    def _initialize(self, request: ReceivedRequest) -> InitProducerIdResponse:
        if request.message.producer_id != -1:
            self.epoch += 1
        return init_producer_id_response(7, self.epoch)

    def _end_transaction(self, request: ReceivedRequest) -> EndTxnResponse:
        if request.version < 5:
            return end_txn_response()
        self.epoch = request.message.producer_epoch + 1
        return end_txn_response(ErrorCode.NONE, 7, self.epoch)

    def offer_version_2(self) -> None:
        feature = FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)
        for broker in (self.leader, self.coordinator):
            broker.handlers[ApiKey.API_VERSIONS] = lambda request, broker=broker: replace(  # type: ignore[misc]
                broker.api_versions(), finalized_features_epoch=9, finalized_features=(feature,)
            )

    def producer(self, **options: Any) -> Producer:
        settings: dict[str, Any] = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 10, "linger_ms": 0}
        settings |= {"reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 10, "max_block_ms": 5_000}
        return Producer(self.leader.address, transactional_id="gauge", **(settings | options))

    def versions_and_epochs(self, api_key: int) -> list[tuple[int, int]]:
        """Return version and producer epoch of every request of one API."""
        return [
            (request.version, getattr(request.message, "producer_epoch", -1))
            for request in self.coordinator.received_requests
            if request.api_key == api_key
        ]


@asynccontextmanager
async def transactional_brokers() -> AsyncIterator[TransactionalBrokers]:
    """Yield both brokers while they serve."""
    async with scripted_brokers(2) as brokers:
        yield TransactionalBrokers(brokers)
