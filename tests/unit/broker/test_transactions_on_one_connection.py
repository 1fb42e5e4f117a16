"""A transaction of version 2 over one connection: concurrent produces are verified in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from tests.support.logs.partition_logs import batch
from tests.support.network.raw_client import RawClient, decode_response
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import encode_request
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import ApiKey
from tidelog.testing.embedded import EmbeddedCluster

CONFIG = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
TRANSACTIONAL_ID, TOPIC = "one", "t"
PRODUCE_VERSION, END_VERSION = 12, 5
TRANSACTION = 1


class Producer:
    """A transactional producer without a library."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.producer_id, self.epoch = -1, -1
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=(TRANSACTIONAL_ID,))
        wait_until(
            lambda: not client.send_request(find, 4, FindCoordinatorResponse).coordinators[0].error_code
        )
        wait_until(self._init)

    def _init(self) -> bool:
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        response = self.client.send_request(request, 5, InitProducerIdResponse)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return not response.error_code

    def frame(self, sequence: int) -> bytes:
        """Return a Produce request with one record."""
        records = batch(
            [str(sequence)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=0, records=bytes(records))
        request = ProduceRequest(
            transactional_id=TRANSACTIONAL_ID,
            acks=-1,
            timeout_ms=10_000,
            topic_data=(TopicProduceData(name=TOPIC, partition_data=(data,)),),
        )
        return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, sequence, "raw", request)

    def send(self, *sequences: int) -> list[PartitionProduceResponse]:
        """Send all at once; return the outcomes in the order of the responses."""
        frames = self.client.responses_to(b"".join(self.frame(sequence) for sequence in sequences))
        assert frames is not None
        responses = [
            cast(ProduceResponse, decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame)) for frame in frames
        ]
        return [response.responses[0].partition_responses[0] for response in responses]

    def end(self, *, commit: bool) -> None:
        """End the transaction; the next one has the epoch of the response."""
        response: EndTxnResponse | None = None

        def has_ended() -> bool:
            nonlocal response
            request = EndTxnRequest(
                transactional_id=TRANSACTIONAL_ID,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            )
            response = self.client.send_request(request, END_VERSION, EndTxnResponse)
            return not response.error_code

        wait_until(has_ended)
        assert response is not None
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def stable_end(self) -> int:
        requested = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=1, topics=(ListOffsetsTopic(name=TOPIC, partitions=(requested,)),)
        )
        return self.client.send_request(request, 7, ListOffsetsResponse).topics[0].partitions[0].offset


@pytest.fixture
def producer() -> Iterator[Producer]:
    with EmbeddedCluster(config=CONFIG) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with RawClient(host, int(port)) as client:
            topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            client.send_request(
                CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7, CreateTopicsResponse
            )
            yield Producer(client)


def test_concurrent_produces_are_appended_in_order(producer: Producer) -> None:
    responses = producer.send(0, 1, 2, 3)
    assert [(one.error_code, one.base_offset) for one in responses] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert producer.stable_end() == 0
    producer.end(commit=True)
    wait_until(lambda: producer.stable_end() == 5)

    # The next transaction begins at once, with a new epoch, while the markers may be in flight.
    (first,) = producer.send(0)
    assert ErrorCode(first.error_code) in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
    wait_until(lambda: not producer.send(0)[0].error_code)
    assert producer.stable_end() == 5
    producer.end(commit=False)
    wait_until(lambda: producer.stable_end() == 7)


def test_a_batch_of_the_previous_transaction_is_refused(producer: Producer) -> None:
    producer.send(0)
    late = producer.frame(1)
    producer.end(commit=False)
    wait_until(lambda: producer.stable_end() == 2)
    responses = producer.client.responses_to(late)
    assert responses is not None
    refused = cast(ProduceResponse, decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, responses[0]))
    assert refused.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.stable_end() == 2
