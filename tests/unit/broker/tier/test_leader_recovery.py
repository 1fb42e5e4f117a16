"""Leaders that are elected without their records: their logs continue after the newest remote segment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.crash_points import crash_points
from tests.support.replicas.replica_manager import NODE, Replicas
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.segment_metadata import FINISHED, copy_start, step
from tests.support.waiting import eventually
from tidelog.base.backoff import ExponentialBackoff
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.tier.leader_recovery import LeaderRecovery
from tidelog.cluster.image import LeaderRecoveryState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.reading.auxiliary import AuxiliaryState
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.truncation import RemoteState
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.producer_snapshot import encode_snapshot
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

NAME = TopicPartition("t", 0)
RECOVERING = LeaderRecoveryState.RECOVERING
PRODUCER = ProducerEntry(7, 0, last_timestamp=NOW_MS, batches=[BatchMetadata(9, 49, 9, NOW_MS)])


class AuxiliaryFiles:
    """Returns the small files of every segment after `failures` errors."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.fetched: list[RemoteLogSegmentMetadata] = []

    async def fetch_auxiliary(self, metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
        self.fetched.append(metadata)
        if len(self.fetched) <= self.failures:
            raise RemoteStorageError("the store is unavailable")
        return AuxiliaryState([EpochEntry(3, 10), EpochEntry(5, 30)], encode_snapshot([PRODUCER]))


class Node:
    """A node that is elected leader of one partition, whose records are in remote storage."""

    def __init__(
        self,
        auxiliary: AuxiliaryFiles | None = None,
        *,
        state: int = RECOVERING,
        disk: CrashFileSystem | None = None,
    ) -> None:
        self.replicas = Replicas(disk, log_config=log_config(remote_storage_enable=True))
        self.metadata = InMemoryRemoteLogMetadataManager()
        self.auxiliary = auxiliary or AuxiliaryFiles()
        self.recovery = LeaderRecovery(
            self.metadata,
            self.auxiliary,
            self.replicas.manager,
            clock=self.replicas.clock,
            randomness=random.Random(1),
            backoff=ExponentialBackoff(1, 1),
            register_new=self._register_nothing,
        )
        self.topic_id = self.replicas.create(
            "t", leader_epoch=1005, leader_recovery_state=state, remote_storage_enable="true"
        )
        self.partition_id = TopicIdPartition(self.topic_id, *NAME)

    async def _register_nothing(self, partition: Partition) -> None:
        assert not partition.is_read_only

    @property
    def partition(self) -> Partition:
        return self.replicas.manager.partitions[NAME]

    def store(self, *segments: RemoteLogSegmentMetadata) -> None:
        for number, segment in enumerate(segments):
            self.metadata.log.append(segment)
            self.metadata.log.append(step(number, FINISHED, partition=self.partition_id))

    def load_metadata(self) -> None:
        self.metadata.on_partition_leadership_changes([self.partition_id], [])

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        return [
            copy_start(0, 10, 29, 3, partition=self.partition_id),
            copy_start(1, 30, 49, 5, partition=self.partition_id),
        ]

    @asynccontextmanager
    async def run_recovery(self) -> AsyncIterator[None]:
        self.recovery.check()
        try:
            yield
        finally:
            await self.recovery.close()

    async def wait_until_leader(self) -> None:
        await eventually(lambda: self.partition.is_leader)


async def test_the_log_of_an_elected_leader_continues_after_the_newest_remote_segment() -> None:
    node = Node()
    node.store(*node.segments())
    node.load_metadata()
    async with node.run_recovery():
        await node.wait_until_leader()
    log = node.partition.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (10, 50, 50)
    assert log.leader_epochs.entries == [EpochEntry(3, 10), EpochEntry(5, 30), EpochEntry(1005, 50)]
    assert list(log.producers.producers) == [7]
    assert node.partition.leader_epoch == 1005


async def test_requests_get_not_leader_until_the_log_is_recovered() -> None:
    node = Node()
    with pytest.raises(KafkaError) as raised:
        node.partition.require_leader()
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.load_metadata()
    async with node.run_recovery():
        await node.wait_until_leader()
    node.partition.require_leader(1005)


async def test_nothing_is_recovered_before_the_metadata_is_complete() -> None:
    node = Node()
    node.metadata.held_back.add(node.partition_id)
    node.load_metadata()
    node.store(*node.segments())
    async with node.run_recovery():
        for _ in range(20):
            await asyncio.sleep(0)
        assert not node.partition.is_leader and node.auxiliary.fetched == []
        node.metadata.held_back.clear()
        node.load_metadata()
        await node.wait_until_leader()
    assert node.partition.log.log_end_offset == 50


async def test_a_leader_without_remote_segments_starts_at_0() -> None:
    node = Node()
    node.load_metadata()
    async with node.run_recovery():
        await node.wait_until_leader()
    assert node.partition.log.log_end_offset == 0


async def test_an_unavailable_store_delays_the_recovery() -> None:
    node = Node(AuxiliaryFiles(failures=3))
    node.store(*node.segments())
    node.load_metadata()
    async with node.run_recovery():
        await node.wait_until_leader()
    assert len(node.auxiliary.fetched) == 4
    assert node.partition.log.log_end_offset == 50


async def test_a_recovered_log_is_not_recovered_again_in_a_later_epoch() -> None:
    node = Node()
    node.store(*node.segments())
    node.load_metadata()
    async with node.run_recovery():
        await node.wait_until_leader()
        node.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=node.topic_id, leader=NODE))
        assert node.partition.is_leader and node.partition.leader_epoch == 1006
        assert node.replicas.manager.awaiting_recovery == set()


async def test_a_broker_that_is_no_longer_elected_recovers_nothing() -> None:
    node = Node()
    node.store(*node.segments())
    async with node.run_recovery():
        node.replicas.replay(
            PartitionChangeRecord(
                partition_id=0,
                topic_id=node.topic_id,
                leader=NODE + 1,
                isr=(NODE + 1,),
                replicas=(NODE, NODE + 1),
            )
        )
        node.load_metadata()
        for _ in range(20):
            await asyncio.sleep(0)
    assert not node.partition.is_leader
    assert node.partition.leader_id == NODE + 1
    assert node.auxiliary.fetched == []


def test_after_a_crash_at_any_moment_of_a_recovery_the_next_one_has_the_same_log() -> None:
    def recover(disk: CrashFileSystem, progress: list[Any]) -> None:
        node = Node(disk=disk)
        auxiliary = asyncio.run(node.auxiliary.fetch_auxiliary(node.segments()[1]))
        node.partition.log.restart_from_remote(
            RemoteState(10, 50, auxiliary.leader_epochs, auxiliary.producer_snapshot), NOW_MS
        )

    crashes = 0
    for point in crash_points(lambda disk: None, recover):
        asyncio.run(require_recovery(point.disk))
        crashes += 1
    assert crashes > 30


async def require_recovery(disk: CrashFileSystem) -> None:
    node = Node(disk=disk)
    node.store(*node.segments())
    node.load_metadata()
    async with node.run_recovery():
        await node.wait_until_leader()
    log = node.partition.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (10, 50, 50)
    assert log.leader_epochs.entries == [EpochEntry(3, 10), EpochEntry(5, 30), EpochEntry(1005, 50)]
    assert list(log.producers.producers) == [7]


def test_a_clean_leader_leads_at_once() -> None:
    node = Node(state=LeaderRecoveryState.RECOVERED)
    assert node.partition.is_leader
    assert node.replicas.manager.awaiting_recovery == set()
