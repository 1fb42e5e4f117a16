"""Requests are freed when they have ended: none waits for the garbage collector in a reference cycle.

A cycle keeps the frame of the request, up to socket.request.max.bytes, for an unknown time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.batches.compression_bombs import compression_bomb
from tests.support.batches.forged_batches import batch_with_payload
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.broker.network.request import Request
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.testing.embedded import EmbeddedCluster

TOPIC = "compacted"


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with RawClient(host, int(port)) as client:
            configs = (CreatableTopicConfig(name="cleanup.policy", value="compact"),)
            topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=configs)
            client.send_request(
                CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7, CreateTopicsResponse
            )
            wait_until(lambda: not produce(client, records(b"first")))
            yield client


def produce(client: RawClient, batch: bytes) -> int:
    """Return the error code of a Produce of one batch."""
    data = (PartitionProduceData(index=0, records=batch),)
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=(topic,))
    response = client.send_request(request, 9, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def records(value: bytes) -> bytes:
    builder = BatchBuilder()
    builder.append(1, b"key", value)
    return bytes(builder.build())


def requests_in_cycles(client: RawClient) -> int:
    """Collect the garbage and return how many requests were in it."""
    # The broker finishes the last request after the client has its response.
    client.send_request(MetadataRequest(topics=()), 9, MetadataResponse)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return sum(isinstance(each, Request) for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_batch_that_expands_beyond_its_bound(client: RawClient, no_collection: None) -> None:
    batch = bytes(batch_with_payload(compression_bomb(Compression.GZIP, 20), Compression.GZIP))
    assert [produce(client, batch) for _ in range(3)] == [ErrorCode.INVALID_RECORD] * 3
    assert requests_in_cycles(client) == 0


def test_a_large_batch_that_is_validated_in_a_thread(client: RawClient, no_collection: None) -> None:
    batch = records(bytes(500_000))
    assert [produce(client, batch) for _ in range(3)] == [0] * 3
    assert requests_in_cycles(client) == 0


def test_a_metadata_request_for_many_topics(client: RawClient, no_collection: None) -> None:
    topics = tuple(MetadataRequestTopic(name=f"absent-{number}") for number in range(5_000))
    for _ in range(3):
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        assert len(client.send_request(request, 9, MetadataResponse).topics) == 5_000
    assert requests_in_cycles(client) == 0


def test_searches_by_timestamp_leave_no_request_in_a_cycle(client: RawClient, no_collection: None) -> None:
    partitions = (ListOffsetsPartition(partition_index=0, timestamp=0),)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=partitions),))
    for _ in range(3):
        response = client.send_request(request, 7, ListOffsetsResponse)
        assert not response.topics[0].partitions[0].error_code
    assert requests_in_cycles(client) == 0
