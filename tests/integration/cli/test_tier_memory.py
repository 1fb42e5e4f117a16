"""The memory that a broker uses for remote records after clients have read them."""

from __future__ import annotations

import os
import tempfile

from tests.harness.hostile.target import Target
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

MIB = 1024 * 1024
CACHE_BYTES = 16 * MIB
STATED_BYTES = 48 * MIB
"""Memory in addition to the cache: responses in flight, buffers of reader threads, free memory of malloc."""
BATCHES = 48
READS = 3
"""More than twice the bound is read in all, so that a broker that keeps what it read exceeds it."""
TOPIC = "remembered"
EARLIEST_LOCAL = -4


def settings(directory: str) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "100",
        "log.retention.check.interval.ms": "100",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": directory,
        "rsm.config.fetch.chunk.cache.size": str(CACHE_BYTES),
    }


def produce(client: RawClient) -> None:
    for _ in range(BATCHES):
        builder = BatchBuilder()
        for _ in range(10):
            builder.append(0, None, os.urandom(100_000))
        data = PartitionProduceData(index=0, records=bytes(builder.build()))
        topic = TopicProduceData(name=TOPIC, partition_data=(data,))
        request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=(topic,))
        response = client.send_request(request, 9, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == 0


def local_start(client: RawClient) -> int:
    requested = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST_LOCAL)
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=(requested,)),)
    )
    return client.send_request(request, 8, ListOffsetsResponse).topics[0].partitions[0].offset


def read(client: RawClient, end_offset: int) -> int:
    """Read everything below `end_offset`; return the number of bytes."""
    offset = total_bytes = 0
    while offset < end_offset:
        requested = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=6 * MIB)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=6 * MIB,
            session_epoch=-1,
            topics=(FetchTopic(topic=TOPIC, partitions=(requested,)),),
        )
        partition_data = client.send_request(request, 11, FetchResponse).responses[0].partitions[0]
        assert partition_data.error_code == 0
        records = bytes(partition_data.records or b"")
        position = 0
        while position < len(records):
            length = int.from_bytes(records[position + 8 : position + 12], "big")
            offset += 1 + int.from_bytes(records[position + 23 : position + 27], "big")
            position += 12 + length
        total_bytes += len(records)
    return total_bytes


def test_memory_during_three_reads_of_the_tier_is_bounded() -> None:
    """Completed reads once stayed in memory, up to a thousand of them: 3.35 GB with one consumer."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-tier-") as directory,
        Target(settings(directory)) as broker,
    ):
        broker.create_topic(
            TOPIC,
            1,
            {
                "remote.storage.enable": "true",
                "segment.bytes": str(2 * MIB),
                "local.retention.bytes": "1",
                "retention.ms": "-1",
            },
        )
        with RawClient(*broker.address) as client:
            produce(client)
            wait_until(lambda: local_start(client) >= (BATCHES - 4) * 10)
            end_offset = local_start(client)
            broker.reset_peak_memory()
            before_bytes = broker.memory_bytes()
            for _ in range(READS):
                assert read(client, end_offset) >= end_offset * 100_000
            assert broker.peak_memory_bytes() <= before_bytes + CACHE_BYTES + STATED_BYTES
