"""Mounted partitions: how leaders follow the source, with crashes at every step and listings of any age."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.crash_points import crash_points
from tests.support.replicas.replica_manager import NODE, Replicas
from tests.support.tier.metadata_managers import InMemoryMetadataLog, InMemoryRemoteLogMetadataManager
from tests.support.tier.object_stores import MemoryStore
from tests.support.waiting import eventually
from tidelog.base.backoff import ExponentialBackoff
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.tier.leader_recovery import LeaderRecovery
from tidelog.broker.tier.mounts import CHECKED_AT_START_MAX, COMPLETE_LISTING_MS, MountFollower, MountPorts
from tidelog.cluster.image import LeaderRecoveryState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition, uuid_text
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.remote.objects.stores.mounted import Mount, MountedStores
from tidelog.remote.objects.stores.port import ObjectInfo
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.reading.auxiliary import AuxiliaryState
from tidelog.storage.config.topic_source import TopicSource
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

NAME = TopicPartition("t", 0)
SOURCE_ID = UUID(int=0x50BCE)
SOURCE = TopicSource(topic="tides", topic_id=SOURCE_ID, mount="west")
EPOCH = 1_000_005


class SourceBucket(MemoryStore):
    """The bucket of another cluster; listings can be older than the objects, or lack some."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] | None = None
        """The keys of listings; None for those of all objects."""
        self.is_unavailable = False
        self.listings: list[str] = []
        """The key after which each listing began."""
        self.deleted: list[str] = []

    def add(self, start: int, end: int, epoch: int = 5) -> str:
        """Add the manifest of a segment with offsets `start` to `end`, inclusive; return its key."""
        segment_id = UUID(int=0x1000 + start)
        folder = f"w/tides-{uuid_text(SOURCE_ID)}/0"
        key = f"{folder}/{start:020d}-{uuid_text(segment_id)}.rsm-manifest"
        partition = {"topicId": uuid_text(SOURCE_ID), "topicPartition": {"topic": "tides", "partition": 0}}
        metadata = {
            "remoteLogSegmentId": {"topicIdPartition": partition, "id": uuid_text(segment_id)},
            "startOffset": start,
            "endOffset": end,
            "maxTimestampMs": 7,
            "brokerId": 9,
            "eventTimestampMs": 1_000 + start,
            "segmentLeaderEpochs": {str(epoch): start},
        }
        manifest = {"chunkIndex": {"originalFileSize": 1_000}, "remoteLogSegmentMetadata": metadata}
        self.objects[key] = json.dumps(manifest).encode()
        return key

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Return the listed objects."""
        if self.is_unavailable:
            raise RemoteStorageError("the store is unavailable")
        keys = list(self.objects) if self.listed is None else self.listed
        self.listings.append(start_after)
        return (ObjectInfo(key, 100) for key in keys if key.startswith(prefix) and key > start_after)


class SourceLeaderEpochs:
    """Returns the leader epochs of the source's log: one epoch from offset 0 on."""

    async def fetch_auxiliary(self, metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
        return AuxiliaryState([EpochEntry(5, 0)], None)


class Killed(Exception):
    """The process ends here."""


class KilledMetadata(InMemoryRemoteLogMetadataManager):
    """Ends the process before or after a write."""

    def __init__(self, log: InMemoryMetadataLog | None = None) -> None:
        super().__init__(log)
        self.writes_left = -1
        self.is_killed_before = False
        self.is_killed = False

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Record the start of a copy."""
        self._count(before=True)
        await super().add_remote_log_segment_metadata(metadata)
        self._count(before=False)

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Record the next state of a segment."""
        self._count(before=True)
        await super().update_remote_log_segment_metadata(update)
        self._count(before=False)

    def _count(self, *, before: bool) -> None:
        if before is self.is_killed_before and not self.is_killed:
            self.writes_left -= 1
            self.is_killed = self.writes_left == 0
        if self.is_killed:
            # Also a later write: a process that was killed writes nothing.
            raise RemoteMetadataError("killed")


class Node:
    """A node that is leader of a mounted partition."""

    def __init__(
        self,
        source: SourceBucket,
        *,
        disk: CrashFileSystem | None = None,
        log: InMemoryMetadataLog | None = None,
    ) -> None:
        config = log_config(remote_storage_enable=True, tidelog_source=SOURCE)
        self.replicas = Replicas(disk, log_config=config)
        self.metadata = KilledMetadata(log)
        self.source = source

        async def run(function: Callable[..., Any], *arguments: Any) -> Any:
            return function(*arguments)

        self.mounts = MountFollower(
            MountPorts(
                metadata=self.metadata,
                reader=SourceLeaderEpochs(),
                replicas=self.replicas.manager,
                store=MountedStores(MemoryStore(), {"west": Mount(source, "w/")}),
                run_in_thread=run,
                interval_ms=lambda: 10_000_000,
                clock=self.replicas.clock,
                broker_id=NODE,
            )
        )
        self.recovery = LeaderRecovery(
            self.metadata,
            SourceLeaderEpochs(),
            self.replicas.manager,
            clock=self.replicas.clock,
            randomness=random.Random(1),
            backoff=ExponentialBackoff(1, 1),
            register_new=self.mounts.register_new,
        )
        self.topic_id = self.replicas.create(
            "t",
            leader_epoch=EPOCH,
            leader_recovery_state=LeaderRecoveryState.RECOVERING,
            remote_storage_enable="true",
            tidelog_source=SOURCE.text,
        )
        self.partition_id = TopicIdPartition(self.topic_id, *NAME)
        self.metadata.on_partition_leadership_changes([self.partition_id], [])

    @property
    def partition(self) -> Partition:
        return self.replicas.manager.partitions[NAME]

    @property
    def borders(self) -> tuple[int, int, int]:
        """Log start, log end and high watermark."""
        log = self.partition.log
        return log.log_start_offset, log.log_end_offset, log.high_watermark

    @property
    def registered_segments(self) -> list[tuple[int, int]]:
        """The offsets of the segments that readers see; no segment may be in another state."""
        segments = list(self.metadata.list_remote_log_segments(self.partition_id))
        assert {each.state for each in segments} <= {RemoteLogSegmentState.COPY_SEGMENT_FINISHED}
        return sorted((each.start_offset, each.end_offset) for each in segments)

    async def lead(self) -> None:
        """Recover the log and become leader."""
        self.recovery.check()
        tasks = list(self.recovery._tasks.values())
        await eventually(
            lambda: self.partition.is_leader or self.metadata.is_killed or any(task.done() for task in tasks)
        )
        for task in tasks:
            if task.done() and (error := task.exception()) is not None:
                raise error  # the disk has crashed
        if self.metadata.is_killed:
            raise Killed

    def lose_leadership(self) -> None:
        """Let another node become the leader."""
        self.replicas.replay(
            PartitionChangeRecord(
                partition_id=0, topic_id=self.topic_id, leader=NODE + 1, replicas=(NODE, NODE + 1)
            )
        )

    async def follow(self) -> None:
        """Follow the source once."""
        try:
            await self.mounts.follow_once(self.partition)
        except RemoteMetadataError:
            if not self.metadata.is_killed:
                raise
            raise Killed from None


async def leader_of(*segments: tuple[int, int]) -> Node:
    source = SourceBucket()
    for start, end in segments:
        source.add(start, end)
    node = Node(source)
    await node.lead()
    return node


async def test_a_leader_begins_with_what_the_source_has_and_follows_new_segments() -> None:
    node = await leader_of((0, 49))
    assert node.borders == (0, 50, 50)
    assert node.partition.log.leader_epochs.entries == [EpochEntry(5, 0), EpochEntry(EPOCH, 50)]
    node.source.add(50, 99)
    await node.follow()
    assert node.borders == (0, 100, 100)
    assert node.partition.log.leader_epochs.entries == [EpochEntry(5, 0), EpochEntry(EPOCH, 100)]
    assert node.registered_segments == [(0, 49), (50, 99)]
    await node.follow()
    assert node.borders == (0, 100, 100)


async def test_an_empty_source_is_followed_from_its_first_segment_on() -> None:
    node = await leader_of()
    assert node.borders == (0, 0, 0)
    node.source.add(7, 20)
    await node.follow()
    assert node.borders == (7, 21, 21)


async def test_records_are_rejected_as_a_policy_violation() -> None:
    node = await leader_of((0, 49))
    with pytest.raises(KafkaError) as raised:
        node.partition.append(bytearray(b"x"), 1, NOW_MS)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
    with pytest.raises(KafkaError) as raised:
        node.partition.delete_records_before(10)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


async def test_a_segment_after_a_gap_waits_until_the_gap_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    node = await leader_of((0, 49))
    node.source.add(100, 149)
    await node.follow()
    assert node.borders == (0, 50, 50)
    assert "offsets before 100 are not in the bucket of west yet" in caplog.text
    node.source.add(50, 99)
    await node.follow()
    assert node.borders == (0, 150, 150)


async def test_segments_that_the_source_deleted_are_dropped_from_the_start() -> None:
    node = await leader_of((0, 49), (50, 99), (100, 149))
    del node.source.objects[node.source.add(0, 49)]
    await node.follow()
    assert node.borders == (50, 150, 150)
    assert node.registered_segments == [(50, 99), (100, 149)]
    assert not [call for call in node.source.calls if call.name == "delete"]


async def test_many_segments_that_the_source_deleted_are_dropped_in_several_intervals() -> None:
    count = CHECKED_AT_START_MAX + 50
    node = await leader_of(*((10 * number, 10 * number + 9) for number in range(count)))
    for number in range(count - 10):
        del node.source.objects[node.source.add(10 * number, 10 * number + 9)]
    requests_before = len(node.source.calls)
    await node.follow()
    assert node.borders[0] == 10 * CHECKED_AT_START_MAX
    assert len(node.source.calls) - requests_before <= CHECKED_AT_START_MAX + 1
    await node.follow()
    assert node.borders[0] == 10 * (count - 10)
    assert len(node.registered_segments) == 10


async def test_a_missing_segment_within_the_log_is_kept_as_at_the_source() -> None:
    node = await leader_of((0, 49), (50, 99), (100, 149))
    del node.source.objects[node.source.add(50, 99)]
    await node.follow()
    assert node.borders == (0, 150, 150)
    assert node.registered_segments == [(0, 49), (50, 99), (100, 149)]


async def test_a_listing_that_is_older_than_the_objects_changes_nothing() -> None:
    node = await leader_of((0, 49), (50, 99))
    for listed in ([], [node.source.add(50, 99)], [node.source.add(0, 49)]):
        node.source.listed = listed
        await node.follow()
        assert node.borders == (0, 100, 100)
        assert node.registered_segments == [(0, 49), (50, 99)]


async def test_a_listing_that_still_has_deleted_objects_registers_nothing_again() -> None:
    node = await leader_of((0, 49), (50, 99))
    node.source.listed = list(node.source.objects)
    del node.source.objects[node.source.listed[0]]
    await node.follow()
    assert node.borders == (50, 100, 100), "the oldest manifest is requested, whatever is listed"
    node.source.listed = None
    await node.follow()
    assert node.borders == (50, 100, 100)
    node.source.listed = [node.source.add(0, 49), node.source.add(50, 99)]
    del node.source.objects[node.source.listed[0]]
    await node.follow()
    assert node.borders == (50, 100, 100)
    assert node.registered_segments == [(50, 99)]


async def test_only_the_newest_segments_are_listed_again_until_the_next_complete_listing() -> None:
    node = await leader_of(*((10 * number, 10 * number + 9) for number in range(150)))
    node.source.add(1500, 1509)
    below = node.source.add(105, 114, epoch=6)
    await node.follow()
    assert node.source.listings[-1].rpartition("/")[2] == f"{500:020d}"
    assert node.registered_segments[-1] == (1500, 1509) and (105, 114) not in node.registered_segments
    node.replicas.clock.advance_ns(COMPLETE_LISTING_MS * 1_000_000)
    await node.follow()
    assert node.source.listings[-1] == ""
    assert (105, 114) in node.registered_segments and below in node.source.objects


async def test_an_election_waits_for_the_source_and_then_begins_with_its_end() -> None:
    node = await leader_of((0, 49))
    node.lose_leadership()
    assert not node.partition.is_leader
    node.source.add(50, 99)
    node.source.is_unavailable = True
    node.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=node.topic_id, leader=NODE))
    node.recovery.check()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not node.partition.is_leader
    node.source.is_unavailable = False
    await eventually(lambda: node.partition.is_leader)
    await node.recovery.close()
    assert node.borders == (0, 100, 100)


async def test_an_election_at_the_end_of_a_recovery_is_followed_by_another_recovery() -> None:
    source = SourceBucket()
    source.add(0, 49)
    node = Node(source)
    node.recovery.check()
    for _ in range(10_000):
        if node.partition.is_leader:
            break
        await asyncio.sleep(0)
    source.add(50, 99)
    node.lose_leadership()
    node.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=node.topic_id, leader=NODE))
    assert node.recovery._tasks  # the callback of the first recovery has not run yet
    node.recovery.check()
    await eventually(lambda: node.partition.is_leader)
    await node.recovery.close()
    assert node.borders == (0, 100, 100)


async def test_a_source_that_was_elected_uncleanly_replaces_records() -> None:
    node = await leader_of((0, 49), (50, 99))
    node.source.add(40, 69, epoch=6)

    async def lineage(metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
        return AuxiliaryState([EpochEntry(5, 0), EpochEntry(6, 40)], None)

    node.mounts._ports.reader.fetch_auxiliary = lineage  # type: ignore[method-assign]
    await node.follow()
    assert node.borders == (0, 70, 70)
    assert node.partition.log.leader_epochs.entries == [
        EpochEntry(5, 0),
        EpochEntry(6, 40),
        EpochEntry(EPOCH, 70),
    ]


async def follow_everything(node: Node) -> None:
    """Follow a source through new segments and the deletion of the oldest one."""
    source = node.source
    source.add(0, 49)
    await node.lead()
    source.add(50, 99)
    source.add(100, 149)
    await node.follow()
    del source.objects[source.add(0, 49)]
    await node.follow()


async def require_followed(node: Node) -> None:
    """Require that a restarted node has what the source has."""
    source = node.source
    source.objects.clear()
    source.add(50, 99)
    source.add(100, 149)
    await node.lead()
    await node.follow()
    assert node.borders == (50, 150, 150)
    assert node.registered_segments == [(50, 99), (100, 149)]
    assert node.partition.log.leader_epochs.entries == [EpochEntry(5, 50), EpochEntry(EPOCH, 150)]
    assert not [call for call in source.calls if call.name in ("put", "delete")]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_after_a_kill_at_any_write_of_metadata_the_next_node_follows(before: bool) -> None:
    kills = 0
    while True:
        node = Node(SourceBucket())
        node.metadata.writes_left, node.metadata.is_killed_before = kills + 1, before
        try:
            asyncio.run(follow_everything(node))
            break
        except Killed:
            kills += 1
        next_node = Node(node.source, disk=node.replicas.fs, log=node.metadata.log)
        asyncio.run(require_followed(next_node))
    assert kills == 8


def test_after_a_crash_at_any_operation_of_the_disk_the_next_node_follows() -> None:
    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        node = Node(SourceBucket(), disk=disk)
        progress.append(node)
        asyncio.run(follow_everything(node))

    crashes = 0
    for point in crash_points(lambda disk: None, workload):
        (node,) = point.progress or [Node(SourceBucket())]
        asyncio.run(require_followed(Node(node.source, disk=point.disk, log=node.metadata.log)))
        crashes += 1
    assert crashes > 100
