"""Transactions of third-party producers and ours: commit, abort, fencing, offsets of groups, timeouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from tests.support.foreign_clients import CLIENTS
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import EARLIEST, ForeignConsumer, ForeignError, read_exactly
from tests.support.foreign_clients.transactional import TRANSACTIONAL, TransactionalProducer
from tests.support.waiting import wait_until
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.broker.node.node import BrokerNode
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

TIMEOUT_MS = 20_000
Opener = Callable[..., TransactionalProducer]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a broker that checks often for timed out transactions."""
    with EmbeddedCluster(
        config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    ) as running:
        yield running


@pytest.fixture
def transactional_id() -> str:
    return f"tides-{uuid4().hex[:12]}"


@pytest.fixture(params=list(TRANSACTIONAL))
def producer_of(request: pytest.FixtureRequest, servers: str, transactional_id: str) -> Iterator[Opener]:
    """Return a function that creates a transactional producer of each client, all with the same id."""
    client_factory: list[TransactionalProducer] = []

    def make(timeout_ms: int = TIMEOUT_MS) -> TransactionalProducer:
        producer = TRANSACTIONAL[request.param](servers, transactional_id, timeout_ms)
        client_factory.append(producer)
        return producer

    yield make
    for producer in client_factory:
        producer.close()


def read_committed_consumer(
    client_factory: ClientFactory, topic: str, partitions: int = 1
) -> ForeignConsumer:
    consumer = client_factory.consumer(CLIENTS["confluent"], isolation="read_committed")
    consumer.assign(topic, dict.fromkeys(range(partitions), EARLIEST))
    return consumer


def state_of(cluster: EmbeddedCluster, transactional_id: str) -> str:
    def describe(node: BrokerNode) -> str:
        return node.services.transactions.describe(transactional_id).transaction_state

    return cluster.run(describe)


def test_committed_records_are_read_and_aborted_ones_are_not(
    producer_of: Opener, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    topic = new_topic(partitions=2)
    producer = producer_of()
    for number in range(6):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, [b"%d" % number], partition)
        if number % 2:
            producer.abort()
        else:
            producer.commit()
    reader = read_committed_consumer(client_factory, topic, 2)
    received = read_exactly(reader, 6)
    assert sorted((one.partition, one.value) for one in received) == [
        (partition, b"%d" % number) for partition in (0, 1) for number in (0, 2, 4)
    ]


def test_an_open_transaction_is_not_read_before_its_commit(
    producer_of: Opener, topic: str, client_factory: ClientFactory
) -> None:
    producer = producer_of()
    producer.begin()
    producer.send(topic, [b"open"])
    reader = read_committed_consumer(client_factory, topic)
    assert reader.poll(0.3) == []
    producer.commit()
    assert [one.value for one in read_exactly(reader, 1)] == [b"open"]


def test_a_second_producer_with_the_id_fences_the_first_and_aborts_its_transaction(
    producer_of: Opener, topic: str, client_factory: ClientFactory
) -> None:
    first = producer_of()
    first.begin()
    first.send(topic, [b"of the first"])
    second = producer_of()
    second.begin()
    second.send(topic, [b"of the second"])
    with pytest.raises(ForeignError):
        first.commit()
    second.commit()
    reader = read_committed_consumer(client_factory, topic)
    assert [one.value for one in read_exactly(reader, 1)] == [b"of the second"]


def test_offsets_are_committed_with_the_transaction_and_discarded_on_abort(
    producer_of: Opener, topic: str, client_factory: ClientFactory
) -> None:
    group = f"group-{uuid4().hex[:12]}"
    producer = producer_of()
    for offset, commits in ((5, True), (9, False)):
        producer.begin()
        producer.send(topic, [b"x"])
        producer.send_offsets({(topic, 0): offset}, group)
        if commits:
            producer.commit()
        else:
            producer.abort()
    reader = client_factory.consumer(CLIENTS["confluent"], group=group)
    assert reader.committed_offset(topic, 0) == 5


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(
    cluster: EmbeddedCluster,
    producer_of: Opener,
    topic: str,
    client_factory: ClientFactory,
    transactional_id: str,
) -> None:
    producer = producer_of(timeout_ms=1_000)
    producer.begin()
    producer.send(topic, [b"too slow"])
    wait_until(lambda: state_of(cluster, transactional_id) == TransactionState.COMPLETE_ABORT.value)
    with pytest.raises(ForeignError):
        producer.commit()
    again = producer_of()
    again.begin()
    again.send(topic, [b"in time"])
    again.commit()
    reader = read_committed_consumer(client_factory, topic)
    assert [one.value for one in read_exactly(reader, 1)] == [b"in time"]
