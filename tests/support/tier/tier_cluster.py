"""Replicas of one partition over one remote storage and metadata log, run step by step without an event loop.

Every call of the storage manager and of the metadata manager yields before and after it, and may fail before
it, half-way, or after its effect. A test, or Hypothesis, selects the events between any two steps of a task.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.configs import log_config
from tests.support.logs.partition_logs import batch, end_marker, open_log
from tests.support.tier.metadata_managers import InMemoryMetadataLog, InMemoryRemoteLogMetadataManager
from tests.support.tier.settings import remote_settings
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.copying.task import CopyTask
from tidelog.remote.expiry.task import ExpirationTask
from tidelog.remote.log_manager.follower_task import FollowerTask
from tidelog.remote.ports.metadata_manager import EpochRanges, RemoteMetadataError, SegmentExcerpt
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import (
    IndexType,
    LogSegmentData,
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
    StoreUnavailable,
)
from tidelog.remote.tasks.byte_rate import UNLIMITED, ByteRate
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoints, no_faults
from tidelog.remote.tasks.outages import StoreOutages
from tidelog.remote.tasks.replica import Role, TieredReplica
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

PARTITION = TopicIdPartition(UUID(int=7), "events", 0)
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED.name
T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or raise its error, without other events."""
    steps = 0
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        steps += 1
        assert steps < 100_000, f"the task has not ended after {steps} steps"


class StoreFaults:
    """The next faults; each is the number of calls that fail in this way."""

    def __init__(self) -> None:
        self.before = 0
        """The call has no effect."""
        self.half_way = 0
        """The call has a part of its effect."""
        self.response_lost = 0
        """The call has its full effect, but the caller gets an error."""
        self.unavailable = 0
        """A copy has a part of its effect, and the error is that of an outage."""

    def clear(self) -> None:
        self.before = self.half_way = self.response_lost = self.unavailable = 0

    def take(self, kind: str) -> bool:
        left: int = getattr(self, kind)
        if left:
            setattr(self, kind, left - 1)
        return left > 0


@dataclass
class StoredCopy:
    """The objects of one copy; `is_whole` when all of them are stored."""

    metadata: RemoteLogSegmentMetadata
    log: bytes
    is_whole: bool = False
    producer_snapshot: bytes = b""
    leader_epochs: bytes = b""
    has_txn_index: bool = False


class CopyingTier:
    """A RemoteStorageManager in memory that reads the given files."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.copies: dict[UUID, StoredCopy] = {}
        self.faults = StoreFaults()
        self.custom_metadata: bytes | None = None
        self.deleted: list[UUID] = []
        self.before_copy: Callable[[RemoteLogSegmentMetadata], None] = lambda _: None

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        self.before_copy(metadata)
        if self.faults.take("before"):
            raise RemoteStorageError("remote storage is away")
        copy = StoredCopy(metadata, self._fs.read(segment.log))
        self.copies[metadata.remote_log_segment_id.id] = copy
        if self.faults.take("half_way"):
            raise RemoteStorageError("remote storage went away")
        if self.faults.take("unavailable"):
            raise StoreUnavailable("remote storage refuses all requests")
        for path in (segment.offset_index, segment.time_index):
            assert self._fs.exists(path)
        copy.producer_snapshot = self._fs.read(segment.producer_snapshot)
        copy.leader_epochs = segment.leader_epochs
        copy.has_txn_index = segment.transaction_index is not None
        if segment.transaction_index is not None:
            assert self._fs.exists(segment.transaction_index)
        copy.is_whole = True
        if self.faults.take("response_lost"):
            raise RemoteStorageError("no response")
        return self.custom_metadata

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> ReadableStream:
        end = None if end_position is None else end_position + 1
        return io.BytesIO(self._complete_copy(metadata).log[start_position:end])

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        assert index_type in (IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT), index_type
        copy = self._complete_copy(metadata)
        is_epochs = index_type is IndexType.LEADER_EPOCH
        return io.BytesIO(copy.leader_epochs if is_epochs else copy.producer_snapshot)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        if self.faults.take("before"):
            raise RemoteStorageError("remote storage is away")
        copy = self.copies.get(metadata.remote_log_segment_id.id)
        if copy is not None and self.faults.take("half_way"):
            copy.is_whole = False
            raise RemoteStorageError("remote storage went away")
        self.copies.pop(metadata.remote_log_segment_id.id, None)
        self.deleted.append(metadata.remote_log_segment_id.id)
        if self.faults.take("response_lost"):
            raise RemoteStorageError("no response")

    def close(self) -> None:
        pass

    def _complete_copy(self, metadata: RemoteLogSegmentMetadata) -> StoredCopy:
        copy = self.copies.get(metadata.remote_log_segment_id.id)
        if copy is None or not copy.is_whole:
            raise RemoteResourceNotFound(str(metadata.remote_log_segment_id))
        return copy


class SteppedMetadata:
    """A metadata manager with slow writes that may fail, and immediate reads."""

    def __init__(self, log: InMemoryMetadataLog, faults: StoreFaults) -> None:
        self.inner = InMemoryRemoteLogMetadataManager(log)
        self._faults = faults

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._write(lambda: self.inner.add_remote_log_segment_metadata(metadata))

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await self._write(lambda: self.inner.update_remote_log_segment_metadata(update))

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        await self._write(lambda: self.inner.put_remote_partition_delete_metadata(metadata))

    async def _write(self, write: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(0)
        if self._faults.take("before"):
            raise RemoteMetadataError("the metadata log is away")
        await write()
        await asyncio.sleep(0)
        if self._faults.take("response_lost"):
            raise RemoteMetadataError("no response")

    def is_ready(self, partition: TopicIdPartition) -> bool:
        return self.inner.is_ready(partition)

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        return self.inner.remote_log_segment_metadata(partition, epoch, offset)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        return self.inner.next_segment_with_txn_index(partition, epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> Offset | None:
        return self.inner.highest_offset_for_epoch(partition, epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, epoch: LeaderEpoch | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        return self.inner.list_remote_log_segments(partition, epoch)

    def segment_state(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentState | None:
        return self.inner.segment_state(segment_id)

    def segment_excerpt(self, partition: TopicIdPartition, ranges: EpochRanges) -> SegmentExcerpt | None:
        return self.inner.segment_excerpt(partition, ranges)

    def segments_version(self, partition: TopicIdPartition) -> object:
        return self.inner.segments_version(partition)

    def partition_deletions(self) -> list[RemotePartitionDeleteMetadata]:
        return self.inner.partition_deletions()

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        self.inner.on_partition_leadership_changes(leaders, followers)

    def on_stop_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        self.inner.on_stop_partitions(partitions)

    async def close(self) -> None:
        await self.inner.close()


@dataclass(eq=False)
class TierNode:
    """One replica and the tasks of its role; `restart` is a crash that keeps only the log and remote data."""

    cluster: TierCluster
    broker_id: int
    log: PartitionLog
    context: RemoteLogContext = field(init=False)
    metadata: SteppedMetadata = field(init=False)
    role: Role | None = None
    copy: CopyTask | None = None
    expiration: ExpirationTask | None = None
    follower: FollowerTask | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, faults: FaultPoints = no_faults) -> None:
        """Restart from stored data; the role has to be set again."""
        cluster = self.cluster
        if hasattr(self, "metadata"):
            run_to_end(self.metadata.close())
        self.metadata = SteppedMetadata(cluster.events, cluster.metadata_faults)
        self.context = RemoteLogContext(
            broker_id=self.broker_id,
            settings=cluster.settings,
            storage=cluster.tier,
            metadata=self.metadata,
            clock=cluster.clock,
            randomness=cluster.random,
            run_copy=_run_as_step,
            run_deletion=_run_as_step,
            copy_quota=ByteRate(UNLIMITED, 11, 1),
            outages=StoreOutages.create(cluster.settings, cluster.clock, cluster.random),
            faults=faults,
            pause=self._pause,
        )
        self.role = self.copy = self.expiration = self.follower = None

    def lead(self, epoch: LeaderEpoch) -> None:
        """Become leader of `epoch`."""
        self._take_role(epoch, is_leader=True)
        assert self.role is not None
        self.copy = CopyTask(self.context, self.role)
        self.expiration = ExpirationTask(self.context, self.role)
        self.follower = None

    def follow(self, epoch: LeaderEpoch) -> None:
        """Become follower in `epoch`."""
        self._take_role(epoch, is_leader=False)
        assert self.role is not None
        self.copy = self.expiration = None
        self.follower = FollowerTask(self.context, self.role)

    def run_copy(self) -> None:
        """Run the copy task once without other events."""
        assert self.copy is not None
        run_to_end(self.copy.run())

    def run_expiration(self) -> None:
        """Run the expiration task once without other events."""
        assert self.expiration is not None
        run_to_end(self.expiration.run())

    def run_follower(self) -> None:
        """Run the follower task once."""
        assert self.follower is not None
        run_to_end(self.follower.run())

    def _take_role(self, epoch: LeaderEpoch, *, is_leader: bool) -> None:
        if self.role is not None:
            self.role.is_current = False
        if self.copy is not None:
            self.copy.release()
        self.metadata.on_partition_leadership_changes((PARTITION,), ())
        self.role = Role(TieredReplica(PARTITION, self.log, epoch), is_leader=is_leader)

    async def _pause(self, delay_ms: int) -> None:
        self.cluster.clock.now_ms += delay_ms
        await asyncio.sleep(0)


async def _run_as_step(function: Callable[..., Any], /, *args: Any) -> Any:
    await asyncio.sleep(0)
    result = function(*args)
    await asyncio.sleep(0)
    return result


TIERED = log_config(
    remote_storage_enable=True,
    segment_bytes=1 << 20,
    retention_ms=-1,
    retention_bytes=-1,
    local_retention_ms=0,
    local_retention_bytes=-1,
    file_delete_delay_ms=0,
)


class TierCluster:
    """Several replicas, one remote storage, one metadata log, one clock."""

    def __init__(self, replicas: int = 1, config: LogConfig = TIERED) -> None:
        self.fs = CrashFileSystem()
        self.clock = ManualClock()
        self.random = random.Random(1)
        self.settings = remote_settings()
        self.tier = CopyingTier(self.fs)
        self.metadata_faults = StoreFaults()
        self.events = InMemoryMetadataLog()
        self.nodes = [
            TierNode(self, broker_id, open_log(self.fs, config, directory=f"/data{broker_id}/events-0"))
            for broker_id in range(replicas)
        ]

    def leader(self, epoch: LeaderEpoch = 0) -> TierNode:
        """Let the first replica become leader of `epoch`, and return it."""
        node = self.nodes[0]
        node.lead(epoch)
        return node

    def configure(self, config: LogConfig) -> None:
        """Change the topic's configs."""
        for node in self.nodes:
            node.log.update_config(config)

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments of the partition in the metadata."""
        manager = InMemoryRemoteLogMetadataManager(self.events)
        manager.on_partition_leadership_changes((PARTITION,), ())
        listed = list(manager.list_remote_log_segments(PARTITION))
        run_to_end(manager.close())
        return listed

    def ranges(self) -> list[tuple[Offset, Offset, str]]:
        """Return first and last offset and state of every segment in the metadata."""
        return [(each.start_offset, each.end_offset, each.state.name) for each in self.segments()]

    def assert_nothing_dangles(self) -> None:
        """Check that every object belongs to a finished segment, and that those are complete."""
        segments = self.segments()
        states = {segment.state.name for segment in segments}
        assert states <= {FINISHED}, self.ranges()
        wanted = {segment.remote_log_segment_id.id for segment in segments}
        assert set(self.tier.copies) == wanted
        assert all(copy.is_whole for copy in self.tier.copies.values())


def produce(
    log: PartitionLog,
    count: int = 10,
    *,
    epoch: LeaderEpoch = 0,
    replicated: bool = True,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
) -> Offset:
    """Append a batch of `count` records as the leader of `epoch`; return its first offset."""
    is_first = producer_id < 0
    data = batch(
        [f"value-{index}" for index in range(count)],
        timestamps=timestamp,
        producer_id=producer_id,
        producer_epoch=-1 if is_first else 0,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    info = log.append_as_leader(data, epoch, timestamp)
    if replicated:
        log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def end_transaction(
    log: PartitionLog, producer_id: int, *, is_abort: bool, epoch: LeaderEpoch = 0, replicated: bool = True
) -> None:
    """Append the marker of a coordinator."""
    log.append_as_leader(
        end_marker(producer_id, is_abort=is_abort), epoch, NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    if replicated:
        log.advance_high_watermark(log.log_end_offset)


def sealed_segments(log: PartitionLog, count: int, *, epoch: LeaderEpoch = 0, size: int = 10) -> None:
    """Append `count` segments of `size` records each, and an empty active one."""
    for _ in range(count):
        produce(log, size, epoch=epoch)
        log.roll(NOW_MS)


def replicate(leader: PartitionLog, follower: PartitionLog) -> None:
    """Replicate to a follower without records up to the leader's end."""
    while follower.log_end_offset < leader.log_end_offset:
        records = leader.read(follower.log_end_offset, 1 << 20, at_least_one=True).records
        assert records is not None
        follower.append_as_follower(records.read(), NOW_MS)
    follower.advance_high_watermark(leader.high_watermark)


def batches_of(data: bytes) -> Iterator[tuple[Offset, bytes]]:
    """Return the batches in the bytes of a segment, each with its base offset."""
    for position, header in iterate_headers(data):
        yield header.base_offset, bytes(data[position : position + header.size_bytes])
