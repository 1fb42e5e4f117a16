"""Topics that are created automatically when they are used, and topics that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignClient, ForeignError, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import EARLIEST, poll_all_until, read_exactly
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop


@pytest.fixture
def name() -> str:
    """Return the name of a topic that does not exist."""
    return f"unmade-{uuid4().hex[:10]}"


@pytest.fixture(scope="module")
def strict_servers() -> Iterator[str]:
    """Run a broker without auto-creation of topics."""
    with EmbeddedCluster(config={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster.bootstrap_servers


def test_producing_creates_the_topic_with_the_broker_defaults(
    client: ForeignClient, name: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(client, name, [Message(b"first", partition=2)])
    admin = client_factory.admin(client)
    assert set(admin.partition_leaders(name)) == {0, 1, 2}
    (received,) = client_factory.consume(client, name, 1, {2: EARLIEST})
    assert received.value == b"first"


@pytest.mark.parametrize("client_name", ["kafka_python", "tidelog"])
def test_subscribing_creates_the_topic_if_the_consumer_allows_it(
    client_name: str, name: str, client_factory: ClientFactory
) -> None:
    # librdkafka has the option too, but never requests the creation of a subscribed topic.
    client = CLIENTS[client_name]
    admin = client_factory.admin(CLIENTS["confluent"])
    member = client_factory.consumer(client, group=name, auto_create=True, metadata_age_ms_max=300)
    member.subscribe(name)
    poll_all_until([member], lambda _: name in admin.topics(), "topic of the subscription")
    client_factory.produce(client, name, [Message(b"v")])
    assert read_exactly(member, 1)[0].value == b"v"


@pytest.mark.parametrize("client_name", ["confluent", "tidelog"])
def test_subscribing_creates_no_topic_if_the_consumer_forbids_it(
    client_name: str, name: str, client_factory: ClientFactory
) -> None:
    # kafka-python has the option too, but requests the creation of topics nevertheless.
    member = client_factory.consumer(CLIENTS[client_name], group=name, auto_create=False)
    member.subscribe(name)
    with suppress(ForeignError):
        member.poll(0.5)
    assert name not in client_factory.admin(CLIENTS["confluent"]).topics()


@pytest.mark.parametrize("client_name", ["confluent", "tidelog"])
def test_an_unknown_topic_is_an_error_without_auto_creation(
    client_name: str, name: str, strict_servers: str
) -> None:
    client_factory = ClientFactory(strict_servers)
    producer = client_factory.producer(CLIENTS[client_name], unknown_topic_ms=500)
    with pytest.raises(ForeignError):
        producer.send(name, [Message(b"v")])
        producer.flush()
    assert name not in client_factory.admin(CLIENTS[client_name]).topics()
    client_factory.close()


def test_a_topic_created_later_is_found_by_a_waiting_client(
    client: ForeignClient, name: str, strict_servers: str
) -> None:
    client_factory = ClientFactory(strict_servers)
    member = client_factory.consumer(client, group=name, metadata_age_ms_max=300)
    member.subscribe(name)
    with suppress(ForeignError):
        member.poll(0.2)
    client_factory.admin(client).create_topic(name)
    client_factory.produce(client, name, [Message(b"at last")])
    assert read_exactly(member, 1)[0].value == b"at last"
    client_factory.close()


def test_a_recreated_topic_starts_at_offset_0(
    client: ForeignClient, name: str, client_factory: ClientFactory
) -> None:
    admin = client_factory.admin(client)
    admin.create_topic(name)
    client_factory.produce(client, name, [Message(b"old %d" % number) for number in range(5)])
    admin.delete_topic(name)
    wait_until(lambda: name not in admin.topics(), "end of the topic")
    admin.create_topic(name)
    (receipt,) = client_factory.produce(client, name, [Message(b"new")])
    assert receipt.offset == 0
    assert [one.value for one in client_factory.consume(client, name, 1)] == [b"new"]


def test_a_running_producer_continues_when_its_topic_is_recreated(
    client: ForeignClient, name: str, client_factory: ClientFactory
) -> None:
    admin = client_factory.admin(CLIENTS["confluent"])
    admin.create_topic(name)
    producer = client_factory.producer(client)
    producer.send(name, [Message(b"old")])
    producer.flush()
    admin.delete_topic(name)
    wait_until(lambda: name not in admin.topics(), "end of the topic")
    admin.create_topic(name)
    producer.send(name, [Message(b"new")])
    producer.flush()
    assert [one.value for one in client_factory.consume(client, name, 1)] == [b"new"]
