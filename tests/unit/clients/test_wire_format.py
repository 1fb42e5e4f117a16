"""The requests of our clients, decoded by kio: schemas and codec of another author."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_reader

from tests.support.network.scripted_broker import scripted_brokers
from tests.support.transactions.accumulators import P0, P1, NoJitter, accumulator, cluster, put_or_fail
from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.fetcher import Fetcher
from tidelog.clients.consumer.partition_state import AssignedPartitions
from tidelog.clients.groups.membership import Membership
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.producer.accumulator import RecordAccumulator
from tidelog.clients.producer.produce_core import produce_request
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.framing import encode_request
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.protocol.registry import APIS, ApiKey, request_type
from tidelog.protocol.schema import ApiMessage


def read_by_kio(frame: bytes, api_key: int, version: int) -> tuple[Any, Any]:
    """Return header and message of a frame without its size; no bytes may remain."""
    header_type = HeaderV2 if APIS[api_key].is_flexible(version) else HeaderV1
    header, read = entity_reader(header_type)(frame, 0)
    message, more = entity_reader(load_request_schema(api_key, version))(frame, read)
    assert read + more == len(frame)
    return header, message


def transfer(message: ApiMessage, version: int) -> Any:
    frame = encode_request(message.api_key, version, 7, "tests", message)
    header, read = read_by_kio(frame[4:], message.api_key, version)
    assert (header.request_api_key, header.request_api_version) == (message.api_key, version)
    assert (header.correlation_id, header.client_id) == (7, "tests")
    return read


def versions(key: ApiKey) -> list[int]:
    api = APIS[key]
    return list(range(max(api.lowest, request_type(key).valid_versions.lowest), api.highest + 1))


def with_cluster_id(metadata: ClusterMetadata) -> ClusterMetadata:
    """Return the same metadata with topic ids."""
    for number, (name, topic) in enumerate(metadata.topics.items()):
        metadata.topics[name] = replace(topic, topic_id=UUID(int=number + 1))
    return metadata


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_a_produce_of_every_version_is_read_by_kio(version: int) -> None:
    metadata = with_cluster_id(cluster({P0: 1, P1: 1}))
    target: RecordAccumulator = accumulator()
    for partition in (P0, P1):
        put_or_fail(target, partition, b"high tide")
    target.begin_flush()
    batches = target.drain(target.ready(metadata, 0).nodes[1], metadata, 10_000)
    read = transfer(produce_request(batches, metadata, -1, 30_000), version)
    assert read.acks == -1
    assert read.timeout.total_seconds() == 30
    (topic,) = read.topic_data
    if version < 13:
        assert topic.name == "tides"
    else:
        assert topic.topic_id == UUID(int=1)
    records = [(partition.index, bytes(partition.records)) for partition in topic.partition_data]
    assert records == [(batch.topic_partition.partition, bytes(batch.close())) for batch in batches]


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch_in_every_version(version: int) -> None:
    metadata = with_cluster_id(cluster({P0: 1, P1: 1}))
    assigned = AssignedPartitions()
    assigned.set([P0, P1])
    config = ConsumerConfig(
        fetch_max_wait_ms=123,
        fetch_min_bytes=5,
        fetch_max_bytes=9_999,
        client_rack="r",
        isolation_level="read_committed",
    )
    for state in assigned:
        state.seek(FetchPosition(10 + state.topic_partition.partition), 1)
    backoff = ExponentialBackoff(100, 1_000)
    fetcher = Fetcher(config, assigned, metadata, retry_backoff=backoff, rng=NoJitter())
    request, highest = fetcher.request(1, list(assigned))
    assert highest is None
    read = transfer(request, version)
    if version < 15:
        assert read.replica_id == -1
    else:
        assert read.replica_state.replica_id == -1
    assert (read.max_wait.total_seconds(), read.min_bytes, read.max_bytes) == (0.123, 5, 9_999)
    assert read.isolation_level == 1
    (topic,) = read.topics
    if version < 13:
        assert topic.topic == "tides"
    else:
        assert topic.topic_id == UUID(int=1)
    assert [(partition.partition, partition.fetch_offset) for partition in topic.partitions] == [
        (0, 10),
        (1, 11),
    ]
    if version >= 9:
        assert [partition.current_leader_epoch for partition in topic.partitions] == [1, 1]
    if version >= 7:
        assert (read.session_id, read.session_epoch) == (0, 0)
    if version >= 11:
        assert read.rack_id == "r"


def member() -> Membership:
    return Membership(
        "harbour",
        group_instance_id=None,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        heartbeat_interval_ms=3_000,
    )


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_join_group_in_every_version(version: int) -> None:
    read = transfer(member().join_request([("range", b"subscription")]), version)
    assert (read.group_id, read.member_id, read.protocol_type) == ("harbour", "", "consumer")
    assert [(entry.name, entry.metadata) for entry in read.protocols] == [("range", b"subscription")]
    assert read.session_timeout.total_seconds() == 45
    if version >= 1:
        assert read.rebalance_timeout.total_seconds() == 300


@pytest.mark.parametrize("key", [ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP])
def test_the_other_group_requests_in_every_version(key: ApiKey) -> None:
    membership = member()
    membership.join_request([("range", b"")])
    membership.on_join_response(JoinGroupResponse(member_id="m-1", generation_id=4, protocol_name="range"), 0)
    for version in versions(key):
        if key is ApiKey.LEAVE_GROUP:
            read = transfer(membership.leave_request(version, "bye"), version)
            assert "m-1" in (getattr(read, "member_id", None) or read.members[0].member_id)
            continue
        request: ApiMessage = (
            membership.sync_request({"m-1": b"all"})
            if key is ApiKey.SYNC_GROUP
            else membership.heartbeat_request(0)
        )
        read = transfer(request, version)
        assert (read.group_id, read.generation_id, read.member_id) == ("harbour", 4, "m-1")


async def test_every_field_sent_by_a_producer_is_decoded() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = lambda request: ProduceResponse(
            responses=(
                TopicProduceResponse(
                    name="tides", partition_responses=(PartitionProduceResponse(index=0, base_offset=3),)
                ),
            )
        )
        async with Producer(broker.address, client_id="harbour-1") as producer:
            written = await producer.send_and_wait("tides", b"high", key=b"brest")
        assert written.offset == 3
        await asyncio.sleep(0)
        keys = set()
        for request in broker.received_requests:
            header, _ = read_by_kio(request.frame, request.api_key, request.version)
            assert header.client_id == "harbour-1"
            keys.add(request.api_key)
        assert keys == {ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE}
