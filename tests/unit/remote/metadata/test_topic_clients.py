"""The metadata manager on a real metadata topic, through the bundled clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ForeignPartition

from tests.support.tier.metadata_managers import metadata_topic_config
from tests.support.tier.segment_metadata import FINISHED, copy_start, step
from tests.support.waiting import eventually
from tidelog.clients.admin.admin import Admin
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.record_codec import decode_event
from tidelog.remote.metadata.snapshot_files import SnapshotFiles
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.metadata.topic_clients import TopicClients
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.testing.embedded import EmbeddedCluster

CONFIG = metadata_topic_config(partitions=5, replication_factor=1, min_isr=1, consume_wait_ms=30_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


@asynccontextmanager
async def run_manager(
    cluster: EmbeddedCluster, *partitions: TopicIdPartition, **options: Any
) -> AsyncIterator[TopicBasedRemoteLogMetadataManager]:
    config = options.pop("config", CONFIG)
    topic = TopicClients(lambda: cluster.bootstrap_servers, config, 1)
    manager = TopicBasedRemoteLogMetadataManager(config, topic, **options)
    manager.on_partition_leadership_changes(partitions, ())
    manager.start()
    try:
        await eventually(lambda: all(map(manager.is_ready, partitions)))
        yield manager
    finally:
        await manager.close()


def some_partitions(count: int) -> list[TopicIdPartition]:
    topic_id = uuid4()
    return [TopicIdPartition(topic_id, "tides", number) for number in range(count)]


async def copy(manager: TopicBasedRemoteLogMetadataManager, number: int, partition: TopicIdPartition) -> None:
    await manager.add_remote_log_segment_metadata(
        copy_start(number, number * 100, number * 100 + 99, partition=partition)
    )
    await manager.update_remote_log_segment_metadata(step(number, FINISHED, partition=partition))


async def test_nodes_read_each_others_writes_and_restart_from_snapshots(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    partitions = some_partitions(8)
    files = SnapshotFiles(OsFileSystem(), str(tmp_path))
    async with (
        run_manager(cluster, *partitions, files=files) as one,
        run_manager(cluster, *partitions) as two,
    ):
        for number in range(3):
            for partition in partitions:
                await copy(one if number % 2 else two, number, partition)
        await eventually(
            lambda: all(
                manager.highest_offset_for_epoch(p, 0) == 299 for manager in (one, two) for p in partitions
            )
        )
    files = SnapshotFiles(OsFileSystem(), str(tmp_path))
    async with run_manager(cluster, *partitions, files=files) as again:
        for partition in partitions:
            assert again.highest_offset_for_epoch(partition, 0) == 299
            assert len(list(again.list_remote_log_segments(partition, 0))) == 3
        late = some_partitions(1)[0]
        again.on_partition_leadership_changes([late], ())
        await eventually(lambda: again.is_ready(late))
        await copy(again, 0, late)


async def test_the_topic_is_created_as_configured_and_another_partition_count_is_refused(
    cluster: EmbeddedCluster,
) -> None:
    async with run_manager(cluster, *some_partitions(1)):
        pass
    async with Admin(cluster.bootstrap_servers) as admin:
        descriptions = await admin.describe_topics([METADATA_TOPIC])
    assert len(descriptions[METADATA_TOPIC].partitions) == 5  # type: ignore[union-attr]
    failures: list[str] = []
    other = metadata_topic_config(partitions=50)
    manager = TopicBasedRemoteLogMetadataManager(
        other, TopicClients(lambda: cluster.bootstrap_servers, other, 1), on_failure=failures.append
    )
    manager.start()
    await eventually(lambda: failures)
    assert "has 5 partitions" in failures[0]
    await manager.close()


async def test_records_are_in_the_partitions_of_kafkas_partitioner(
    cluster: EmbeddedCluster,
) -> None:
    (partition,) = some_partitions(1)
    async with run_manager(cluster, partition) as manager:
        await copy(manager, 0, partition)
        number = manager.metadata_partition_of(partition)
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        place = ForeignPartition(METADATA_TOPIC, number)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        events = []
        while await consumer.position(place) < end:
            record = await consumer.getone()
            assert record.key is None
            events.append(decode_event(record.value))
    finally:
        await consumer.stop()
    assert events[-2:] == [copy_start(0, 0, 99, partition=partition), step(0, FINISHED, partition=partition)]


async def test_a_metadata_partition_may_change_its_leader() -> None:
    (partition,) = some_partitions(1)
    config = metadata_topic_config(partitions=1, replication_factor=3, min_isr=1, consume_wait_ms=60_000)
    with EmbeddedCluster(nodes=3) as cluster:
        async with run_manager(cluster, partition, config=config) as manager:
            await copy(manager, 0, partition)
            async with Admin(cluster.bootstrap_servers) as admin:
                descriptions = await admin.describe_topics([METADATA_TOPIC])
            leader = descriptions[METADATA_TOPIC].partitions[0].leader  # type: ignore[union-attr]
            cluster.stop_node(leader)
            await copy(manager, 1, partition)
            assert manager.highest_offset_for_epoch(partition, 0) == 199
