"""Idempotent producers: no duplicate, no loss and no disorder, across restarts and repeated batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignClient, ForeignProducer, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.logs.partition_logs import batch
from tests.support.network.raw_client import RawClient
from tests.support.waiting import TIMEOUT_S
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

MESSAGES = 6_000
NAMED_VERSION = 12  # the last one that names topics


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a separate broker, because it is restarted."""
    with EmbeddedCluster() as running:
        yield running


class Stream:
    """A thread that continues to produce numbered messages while the broker restarts."""

    def __init__(self, producer: ForeignProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._failure: BaseException | None = None
        self.sent = 0
        self._may_end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not (self._may_end.is_set() and self.sent >= MESSAGES):
                step = [Message(b"%d" % number) for number in range(self.sent, self.sent + 50)]
                self._producer.send(self._topic, step)
                self.sent += len(step)
                if self.sent % 500 == 0:
                    self._producer.flush()
            self._producer.flush()
        except BaseException as failure:
            self._failure = failure

    def wait_for(self, count: int) -> None:
        """Wait until this number of messages has been passed to the client."""
        while self.sent < count and self._thread.is_alive():
            self._thread.join(0.005)

    def end(self) -> int:
        """End the thread; return the number of messages that it sent."""
        self._may_end.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the producer thread did not end"
        if self._failure is not None:
            raise self._failure
        return self.sent


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
def test_a_restart_neither_loses_nor_duplicates_records(
    client: ForeignClient,
    clean: bool,
    codec: str,
    topic: str,
    client_factory: ClientFactory,
    cluster: EmbeddedCluster,
) -> None:
    producer = client_factory.producer(
        client, idempotent=True, compression=codec, linger_ms=1, batch_bytes=4_000
    )
    stream = Stream(producer, topic)
    stream.wait_for(MESSAGES // 3)
    cluster.restart(clean=clean)
    stream.wait_for(stream.sent + MESSAGES // 3)
    cluster.restart(clean=clean)
    sent = stream.end()
    received = client_factory.consume(CLIENTS["confluent"], topic, sent)
    assert [one.value for one in received] == [b"%d" % number for number in range(sent)]
    assert [one.offset for one in received] == list(range(sent))


class Resender:
    """A producer that can send invalid sequences, which real clients do not."""

    def __init__(self, servers: str, topic: str) -> None:
        host, port = servers.split(":")
        self._client = RawClient(host, int(port))
        self._topic = topic
        response = self._client.send_request(
            InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse
        )
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

    def send(self, sequence: int, *values: str, epoch: int | None = None) -> PartitionProduceResponse:
        """Produce one batch with this first sequence number."""
        records = batch(
            values,
            # A producer expires when its last batch is older than a day.
            timestamps=int(time.time() * 1000),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        partition = PartitionProduceData(index=0, records=bytes(records))
        topic = TopicProduceData(name=self._topic, partition_data=(partition,))
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))
        response = self._client.send_request(request, NAMED_VERSION, ProduceResponse)
        return response.responses[0].partition_responses[0]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


@pytest.fixture
def resender(servers: str, topic: str) -> Iterator[Resender]:
    new_resender = Resender(servers, topic)
    yield new_resender
    new_resender.close()


def test_the_last_five_batches_may_be_repeated_with_the_same_result(
    resender: Resender, topic: str, client_factory: ClientFactory
) -> None:
    sent = [(2 * number, (f"a{number}", f"b{number}")) for number in range(8)]
    first_responses = [resender.send(sequence, *values) for sequence, values in sent]
    assert [response.base_offset for response in first_responses] == [0, 2, 4, 6, 8, 10, 12, 14]
    for (sequence, values), first in list(zip(sent, first_responses, strict=True))[-5:]:
        again = resender.send(sequence, *values)
        assert (again.error_code, again.base_offset) == (0, first.base_offset)
    received = client_factory.consume(CLIENTS["confluent"], topic, 16)
    assert [one.value for one in received] == [value.encode() for _, values in sent for value in values]


def test_a_repeated_batch_older_than_five_is_out_of_order(resender: Resender) -> None:
    for sequence in range(7):
        assert resender.send(sequence, "v").error_code == 0
    assert resender.send(1, "v").error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order(resender: Resender) -> None:
    assert resender.send(0, "v").error_code == 0
    assert resender.send(2, "v").error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert resender.send(1, "v").error_code == 0


def test_an_older_epoch_is_fenced(resender: Resender) -> None:
    assert resender.send(0, "v", epoch=3).error_code == 0
    assert resender.send(0, "v", epoch=2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
def test_duplicates_are_recognized_after_a_restart(
    clean: bool, topic: str, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    before = Resender(cluster.bootstrap_servers, topic)
    for sequence in range(6):
        before.send(sequence, "v")
    before.close()
    cluster.restart(clean=clean)
    after = Resender(cluster.bootstrap_servers, topic)
    assert after.producer_id != before.producer_id
    after.producer_id = before.producer_id
    # A snapshot has the last batch of each producer; with the records that recovery reads, the last five.
    again = after.send(5, "v")
    assert (again.error_code, again.base_offset) == (0, 5)
    assert after.send(6, "v").base_offset == 6
    after.close()
    assert len(client_factory.consume(CLIENTS["confluent"], topic, 7)) == 7
