"""A hundred megabytes, fetched in a few large responses that the broker sends with sendfile."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignClient, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import EARLIEST
from tests.support.network.raw_client import RawClient
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.record import read_records
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

MESSAGES = 100
MESSAGE_BYTES = 1_000_000
TOPIC = "large"
FETCH_BYTES = 150_000_000
NAMED_VERSION = 12


@pytest.fixture(scope="module")
def digest(cluster: EmbeddedCluster) -> Iterator[str]:
    """Fill the topic; return the hash of all values."""
    client_factory = ClientFactory(cluster.bootstrap_servers)
    client_factory.admin(CLIENTS["confluent"]).create_topic(TOPIC, config={"segment.bytes": "200000000"})
    chance = random.Random(100)
    hashed = hashlib.sha256()
    producer = client_factory.producer(CLIENTS["confluent"], batch_bytes=1_000_000)
    for _ in range(MESSAGES):
        value = chance.randbytes(MESSAGE_BYTES)
        hashed.update(value)
        producer.send(TOPIC, [Message(value)])
    producer.flush()
    client_factory.close()
    yield hashed.hexdigest()


def test_a_client_reads_large_fetches_unchanged(
    client: ForeignClient, digest: str, client_factory: ClientFactory
) -> None:
    received = client_factory.consume(
        client, TOPIC, MESSAGES, partition_bytes_max=FETCH_BYTES, fetch_bytes_max=FETCH_BYTES
    )
    hashed = hashlib.sha256()
    for one in received:
        assert one.value is not None
        hashed.update(one.value)
    assert hashed.hexdigest() == digest


def test_one_response_may_hold_all_records(digest: str, servers: str) -> None:
    host, port = servers.split(":")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),),
    )
    with RawClient(host, int(port)) as client:
        response = client.send_request(request, NAMED_VERSION, FetchResponse)
    records = response.responses[0].partitions[0].records
    assert records is not None
    assert len(records) > MESSAGES * MESSAGE_BYTES
    hashed = hashlib.sha256()
    for position, header in iterate_headers(records):
        for record in read_records(records, position, header):
            assert record.value is not None
            hashed.update(record.value)
    assert hashed.hexdigest() == digest


def test_members_of_a_group_read_at_the_same_time(digest: str, client_factory: ClientFactory) -> None:
    readers = [client_factory.consumer(client, partition_bytes_max=10_000_000) for client in CLIENTS.values()]
    for reader in readers:
        reader.assign(TOPIC, {0: EARLIEST})
    hashes = [hashlib.sha256() for _ in readers]
    counts = [0 for _ in readers]
    while min(counts) < MESSAGES:
        for index, reader in enumerate(readers):
            for one in reader.poll(0.05):
                assert one.value is not None
                hashes[index].update(one.value)
                counts[index] += 1
    assert {hashed.hexdigest() for hashed in hashes} == {digest}
