"""Power cuts of a complete broker, at disk operations throughout a workload of clients.

Whatever unsynced data the disk loses, the broker starts. It has every topic whose creation was acknowledged,
and every record that was acknowledged under flush.messages=1. No partition is damaged, no committed offset is
above the end of its log, and the broker serves requests again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from tests.support.nodes.node_on_disk import Connection, PowerCut, node_on
from tests.support.waiting import eventually_returns
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.record import read_records
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

FLUSHED = {"flush.messages": "1", "segment.bytes": "1048576"}
PARTITIONS = 2
GROUP = "group"
POINTS = 36
PARTS = 6
"""`make test` runs one of the parts. Each has operations from the beginning to the end of the workload."""
SURVIVALS: tuple[Survival | int, ...] = (
    Survival.KEEP_ALL,
    Survival.LOSE_UNSYNCED,
    Survival.KEEP_NAMES_ONLY,
    Survival.KEEP_DATA_ONLY,
    Survival.TEAR_LAST,
    Survival.ZERO_LAST,
    1,
    2,
)


@dataclass
class AcknowledgedState:
    """The acknowledged requests, and the deletions that were requested at the power cut."""

    created: set[str] = field(default_factory=set)
    requested_deletions: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    records: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    requested_start: int = 0
    commits: set[int] = field(default_factory=set)


class Client:
    """The steps of the workload, which record each acknowledged request in `known`."""

    def __init__(self, connection: Connection, acknowledged: AcknowledgedState) -> None:
        self._connection = connection
        self._acknowledged = acknowledged

    async def create(self, topic: str) -> None:
        configs = tuple(CreatableTopicConfig(name=key, value=value) for key, value in FLUSHED.items())
        topics = (
            CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1, configs=configs),
        )
        request = CreateTopicsRequest(topics=topics, timeout_ms=9000)
        response = await self._connection.send_request(request, 7, CreateTopicsResponse)
        self._connection.require_ok(response.topics[0].error_code, response)
        self._acknowledged.created.add(topic)

    async def delete(self, topic: str) -> None:
        self._acknowledged.requested_deletions.add(topic)
        request = DeleteTopicsRequest(topic_names=(topic,), timeout_ms=9000)
        response = await self._connection.send_request(request, 5, DeleteTopicsResponse)
        self._connection.require_ok(response.responses[0].error_code, response)
        self._acknowledged.deleted.add(topic)

    async def produce(self, topic: str, partition: int, value: bytes) -> None:
        builder = BatchBuilder()
        builder.append(1_700_000_000_000, b"key", value)
        data = (PartitionProduceData(index=partition, records=bytes(builder.build())),)
        request = ProduceRequest(
            acks=-1, timeout_ms=9000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
        )
        response = (
            (await self._connection.send_request(request, 9, ProduceResponse))
            .responses[0]
            .partition_responses[0]
        )
        self._connection.require_ok(response.error_code, response)
        self._acknowledged.records[topic, partition, response.base_offset] = value

    async def commit(self, topic: str, offset: int) -> None:
        self._acknowledged.commits.add(offset)
        find = FindCoordinatorRequest(key=GROUP, key_type=0)
        while (
            await self._connection.send_request(find, 3, FindCoordinatorResponse)
        ).error_code != ErrorCode.NONE:
            pass
        partitions = (OffsetCommitRequestPartition(partition_index=0, committed_offset=offset),)
        request = OffsetCommitRequest(
            group_id=GROUP, topics=(OffsetCommitRequestTopic(name=topic, partitions=partitions),)
        )
        while True:
            response = await self._connection.send_request(request, 8, OffsetCommitResponse)
            code = response.topics[0].partitions[0].error_code
            if code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                break
        self._connection.require_ok(code, response)

    async def delete_records(self, topic: str, offset: int) -> None:
        self._acknowledged.requested_start = offset
        partitions = (DeleteRecordsPartition(partition_index=0, offset=offset),)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=topic, partitions=partitions),), timeout_ms=9000
        )
        response = await self._connection.send_request(request, 2, DeleteRecordsResponse)
        self._connection.require_ok(response.topics[0].partitions[0].error_code, response)


async def workload(connection: Connection, acknowledged: AcknowledgedState) -> None:
    client = Client(connection, acknowledged)
    await client.create("kept")
    for number in range(4):
        await client.produce("kept", number % PARTITIONS, b"early %d" % number)
    await client.commit("kept", 1)
    await client.create("gone")
    await client.produce("gone", 0, b"in vain")
    await client.produce("kept", 0, b"before the deletion")
    await client.delete_records("kept", 2)
    await client.delete("gone")
    await client.commit("kept", 3)
    for number in range(4):
        await client.produce("kept", number % PARTITIONS, b"late %d" % number)


async def bound_of(connection: Connection, topic: str, partition: int, timestamp: int) -> int:
    """Return the offset at `timestamp`; retry while a new leader does not know it yet, as clients do."""
    partitions = (ListOffsetsPartition(partition_index=partition, timestamp=timestamp),)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=partitions),))

    async def attempt() -> ListOffsetsPartitionResponse:
        response = (await connection.send_request(request, 7, ListOffsetsResponse)).topics[0].partitions[0]
        if response.error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return response

    response = await eventually_returns(attempt, tolerated=(KafkaError,))
    assert response.error_code == ErrorCode.NONE, response
    return response.offset


async def records_of(
    connection: Connection, topic: str, partition: int
) -> tuple[int, dict[int, bytes | None]]:
    """Return the log start offset of a partition, and its records by offset."""
    start = await bound_of(connection, topic, partition, -2)
    end = await bound_of(connection, topic, partition, -1)
    values: dict[int, bytes | None] = {}
    offset = start
    while offset < end:
        partitions = (FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=10_000),)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=10_000,
            session_epoch=-1,
            topics=(FetchTopic(topic=topic, partitions=partitions),),
        )
        response = (await connection.send_request(request, 12, FetchResponse)).responses[0].partitions[0]
        assert response.error_code == ErrorCode.NONE and response.records, response
        data = bytes(response.records)
        while data:
            size = 12 + int.from_bytes(data[8:12], "big")
            for record in read_records(data[:size]):
                values[record.offset] = record.value
                offset = record.offset + 1
            data = data[size:]
    return start, values


async def committed_offset(connection: Connection) -> int:
    topics = (OffsetFetchRequestTopic(name="kept", partition_indexes=(0,)),)
    request = OffsetFetchRequest(group_id=GROUP, topics=topics)
    while True:
        response = await connection.send_request(request, 5, OffsetFetchResponse)
        if response.error_code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            break
        find = FindCoordinatorRequest(key=GROUP, key_type=0)
        await connection.send_request(find, 3, FindCoordinatorResponse)
    assert response.error_code == ErrorCode.NONE, response
    return response.topics[0].partitions[0].committed_offset


async def check_survivor(disk: CrashFileSystem, acknowledged: AcknowledgedState) -> None:
    """Check that all acknowledged requests are durable on `disk`, and that the broker serves requests."""
    async with node_on(disk) as connection:
        metadata = await connection.send_request(MetadataRequest(topics=None), 9, MetadataResponse)
        topics = {topic.name for topic in metadata.topics}
        assert not any(topic.error_code for topic in metadata.topics), metadata
        assert acknowledged.created - acknowledged.requested_deletions <= topics
        assert not acknowledged.deleted & topics
        for topic in sorted(topics & {"kept", "gone"}):
            for partition in range(PARTITIONS):
                start, values = await records_of(connection, topic, partition)
                if (topic, partition) == ("kept", 0):
                    # As in Kafka, a new log start is durable at its next checkpoint: deleted records may
                    # exist again, but no other record is lost.
                    assert start <= acknowledged.requested_start
                else:
                    assert start == 0
                for (_, _, offset), value in acknowledged.records.items():
                    if (topic, partition, offset) in acknowledged.records and offset >= start:
                        assert values.get(offset) == acknowledged.records[topic, partition, offset], value
        if "kept" in topics:
            committed = await committed_offset(connection)
            assert committed == -1 or committed in acknowledged.commits
            # No offset is committed before the record below it is acknowledged.
            assert committed <= await bound_of(connection, "kept", 0, -1)
            await Client(connection, AcknowledgedState()).produce("kept", 0, b"and on")
        else:
            await Client(connection, AcknowledgedState()).create("kept")


async def crash_at(operation: int) -> tuple[CrashFileSystem, AcknowledgedState, bool]:
    """Run the workload with a power cut at `operation`; return the disk and whether there was no cut."""
    disk = CrashFileSystem(crash_at=operation)
    acknowledged = AcknowledgedState()
    try:
        async with node_on(disk) as connection:
            await workload(connection, acknowledged)
            # The power cut is at the end, without a shutdown.
            return disk.crash(Survival.KEEP_ALL), acknowledged, True
    except PowerCut:
        return disk, acknowledged, False


async def operations_of_workload() -> int:
    disk = CrashFileSystem()
    async with node_on(disk) as connection:
        await workload(connection, AcknowledgedState())
        return disk.operation_count


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))]
)
async def test_acknowledged_records_survive_a_power_failure_at_any_operation(
    part: int, caplog: pytest.LogCaptureFixture
) -> None:
    total = await operations_of_workload()
    assert total > POINTS
    points = [1 + index * total // POINTS for index in range(part, POINTS, PARTS)]
    caplog.set_level(logging.WARNING)
    for operation in points:
        disk, acknowledged, _ = await crash_at(operation)
        for survival in SURVIVALS:
            caplog.clear()
            try:
                await check_survivor(disk.crash(survival), acknowledged)
            except BaseException as error:
                last = disk.operations[-1] if disk.operations else "the end"
                error.add_note(
                    f"crash at operation {operation} of {total} ({last}), {survival}, {acknowledged}"
                )
                raise
            failures = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
            assert not failures, f"operation {operation}, {survival}: {failures}"
