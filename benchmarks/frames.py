"""Requests that are encoded before the measurement starts, so that a load uses little CPU."""

from __future__ import annotations

import time
from typing import Final

from tidelog.protocol.batch import read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import ApiKey

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
CLIENT_ID: Final = "benchmark"
RECORD_BYTES: Final = 100
RECORD_OVERHEAD_BYTES_MAX: Final = 32
"""The largest size of a record without its value, key and headers."""
SIZE_BYTES: Final = 4


def batch(size_bytes: int, record_bytes: int = RECORD_BYTES) -> bytes:
    """Return a batch of at most `size_bytes` with values of `record_bytes`, but with at least one record."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)
    value = (bytes(range(256)) * (record_bytes // 256 + 1))[:record_bytes]
    builder.append(now_ms, None, value)
    while builder.estimated_size_bytes + len(value) + RECORD_OVERHEAD_BYTES_MAX <= size_bytes:
        builder.append(now_ms, None, value)
    return bytes(builder.build())


def records_in(records: bytes) -> int:
    """Return the number of records in a batch."""
    return read_header(records).record_count


def produce_frame(topic: str, partitions: int, records: bytes) -> bytes:
    """Return a Produce request with acks=1 that appends `records` to each of the first `partitions`."""
    data = tuple(PartitionProduceData(index=index, records=records) for index in range(partitions))
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, request)


def one_partition_frame(topic: str, partition: int, records: bytes) -> bytes:
    """Return a Produce request with acks=1 that appends `records` to one partition."""
    data = (PartitionProduceData(index=partition, records=records),)
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, request)


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Return a Fetch request for one partition, without a session."""
    partitions = (FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes),)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=64 * 1024 * 1024,
        session_epoch=-1,
        topics=(FetchTopic(topic=topic, partitions=partitions),),
    )
    return encode_request(ApiKey.FETCH, FETCH_VERSION, 1, CLIENT_ID, request)


def create_topic_frame(topic: str, partitions: int, replication_factor: int = 1) -> bytes:
    """Return a request that creates a topic."""
    created = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication_factor)
    request = CreateTopicsRequest(topics=(created,), timeout_ms=30_000)
    return encode_request(ApiKey.CREATE_TOPICS, 5, 1, CLIENT_ID, request)


def metadata_frame(topic: str) -> bytes:
    """Return a Metadata request for one topic, which may create the topic."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=True)
    return encode_request(ApiKey.METADATA, 9, 1, CLIENT_ID, request)


def check_produced(frame: bytes) -> None:
    """Raise ValueError if a Produce response, without its size, has an error code."""
    _, body = read_response_header(memoryview(frame), ApiKey.PRODUCE, PRODUCE_VERSION)
    response = decode(ProduceResponse, frame[body:], PRODUCE_VERSION)
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise ValueError(f"produce failed: {partition}")
