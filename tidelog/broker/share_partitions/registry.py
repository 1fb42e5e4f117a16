"""The share partitions of this node: those of partitions that it leads and that members of groups fetch.

A share partition is loaded from the share coordinator when a member fetches it first. It is dropped when
this node is no longer the leader in the same epoch, when the topic is deleted, when the stored state is
fenced, or when its group has no session on this node any more. Its waiting fetches then complete.

Bounds: share partitions exist only for groups with an open share session, whose number is limited, and for
existing partitions that this node leads.
I/O: the persister. To be used from one event loop.
Source: SharePartitionManager and SharePartitionCache of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from dataclasses import field
from typing import Any, Final, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.share.persister import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    SharePersister,
    StoredState,
)
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.purgatory.timing_wheel import TimerEntry
from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch
from tidelog.broker.share_partitions.acquisition_lock import AcquisitionLock
from tidelog.broker.share_partitions.initial_offset import InitialOffsets
from tidelog.broker.share_partitions.settings import ShareGroupSettings
from tidelog.broker.share_partitions.share_partition import SharePartition, Status
from tidelog.broker.share_partitions.state_writer import StateWriter
from tidelog.broker.share_partitions.stored_states import read_state
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.steps import Steps

NameT = TypeVar("NameT")

logger = logging.getLogger(__name__)

_COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_UNCHANGED_ERRORS: Final = frozenset(
    {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_NOT_AVAILABLE}
)
_FENCED_ERRORS: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_DROPPING_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors, for clients, of a state that this node must not change any more."""


def error_for_clients(code: ErrorCode) -> ErrorCode:
    """Return the error code that clients get for an error of the share coordinator."""
    if code in _COORDINATOR_ERRORS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _FENCED_ERRORS:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code if code in _UNCHANGED_ERRORS or not code else ErrorCode.UNKNOWN_SERVER_ERROR


@dataclass(slots=True, eq=False)
class HostedSharePartition:
    """A share partition with the partition whose leader this node is."""

    partition: Partition
    delivery: SharePartition
    writer: StateWriter
    error: KafkaError | None = None
    """Why the share partition was dropped, for the fetches that wait for it."""
    is_unused: bool = False
    """Whether its group had no session on this node when it was looked at last: it is dropped when its
    changes are stored."""
    remote_reader: object | None = None
    """The fetch that reads records from remote storage; other fetches leave them to it."""

    @property
    def key(self) -> SharePartitionKey:
        """The key of the share partition."""
        return self.delivery.key

    @property
    def has_lost_records(self) -> bool:
        """Whether records were delivered that are above the end of the log. The state must be read again."""
        return self.delivery.end_offset > self.partition.log.log_end_offset

    def require_usable(self) -> None:
        """Raise KafkaError if it was dropped or has lost records, or if this node is no longer the leader."""
        if self.error is not None:
            raise self.error
        if self.has_lost_records:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {self.key} has lost records")
        self.partition.require_leader(self.delivery.leader_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitionPorts:
    """What share partitions use of the node. `fetches` are the waiting requests of ShareFetch."""

    replicas: ReplicaManager
    persister: SharePersister
    timers: Timers
    fetches: Purgatory
    settings: ShareGroupSettings
    initial_offsets: InitialOffsets


@dataclass(slots=True)
class _Locks:
    """Implements LockTimers with the timing wheel of the node."""

    owner: SharePartitions
    hosted: HostedSharePartition | None = None

    def schedule(self, lock: AcquisitionLock, duration_ms: int) -> TimerEntry:
        """Schedule the end of `lock`."""
        return self.owner.ports.timers.schedule(duration_ms, lambda: self._expire(lock))

    def _expire(self, lock: AcquisitionLock) -> None:
        assert self.hosted is not None
        self.owner.expire(self.hosted, lock)


@dataclass(slots=True)
class ShareCounters:
    """Totals for metrics."""

    acknowledgements: list[int] = field(default_factory=lambda: [0] * 5)
    """By acknowledge type: the number of acknowledged records."""
    expired_locks: int = 0
    failed_writes: int = 0


class SharePartitions:
    """Owns the share partitions of a node."""

    def __init__(self, ports: SharePartitionPorts) -> None:
        self.ports = ports
        self.counters = ShareCounters()
        self._by_key: dict[SharePartitionKey, HostedSharePartition] = {}
        self._keys: defaultdict[TopicPartition, set[SharePartitionKey]] = defaultdict(set)
        self._of_groups: defaultdict[str, dict[SharePartitionKey, HostedSharePartition]] = defaultdict(dict)
        """By group; the values are iterated without a hash of each key, which takes longer than the rest."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def in_flight_count(self) -> int:
        """The number of records in flight of all share partitions."""
        return sum(hosted.delivery.in_flight_count for hosted in self._by_key.values())

    async def close(self) -> None:
        """Drop all share partitions. The changes that are not stored yet are lost."""
        for hosted in list(self._by_key.values()):
            self._drop(hosted, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the node is stopping"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- looking up

    def get(self, key: SharePartitionKey) -> HostedSharePartition:
        """Return a share partition that a member has fetched before.

        Errors: KafkaError UNKNOWN_TOPIC_OR_PARTITION.
        """
        hosted = self._by_key.get(key)
        if hosted is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {key.group_id} has not fetched it")
        hosted.delivery.limits = self.ports.settings.limits_of(key.group_id)
        return hosted

    def get_or_load(self, key: SharePartitionKey) -> HostedSharePartition:
        """Return a share partition; begin to load it if it is new.

        Errors: KafkaError of an unknown partition, or of one that another node leads.
        """
        hosted = self._by_key.get(key)
        if hosted is not None and hosted.has_lost_records:
            self._drop(hosted, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "its log has lost records"))
            hosted = None
        if hosted is None:
            partition = self.ports.replicas.find(None, key.topic_id, key.partition)
            partition.require_leader()
            hosted = self._create(key, partition)
            self._start_task(self._load(hosted))
        hosted.is_unused = False
        hosted.delivery.limits = self.ports.settings.limits_of(key.group_id)
        return hosted

    def _create(self, key: SharePartitionKey, partition: Partition) -> HostedSharePartition:
        locks = _Locks(self)
        limits = self.ports.settings.limits_of(key.group_id)
        delivery = SharePartition(key, partition.leader_epoch, limits, locks)
        writer = StateWriter(
            delivery, self.ports.persister, self._start_task, lambda code: self._on_stored(hosted, code)
        )
        hosted = locks.hosted = HostedSharePartition(partition, delivery, writer)
        self._by_key[key] = hosted
        self._keys[partition.topic_partition].add(key)
        self._of_groups[key.group_id][key] = hosted
        return hosted

    async def _load(self, hosted: HostedSharePartition) -> None:
        """Read the stored state of a new share partition; drop it if that fails."""
        delivery, log = hosted.delivery, hosted.partition.log
        try:
            stored = await self._read(hosted)
            start_offset = stored.start_offset
            if start_offset == UNINITIALIZED_START_OFFSET:
                start_offset = await self.ports.initial_offsets.of(hosted.partition, hosted.key.group_id)
            if delivery.status is not Status.LOADING:
                return
            delivery.load(stored, start_offset)
            delivery.move_start(log.log_start_offset)
            self.wake(hosted)
        except KafkaError as error:
            self._drop(hosted, error)
        except Exception as error:
            logger.exception("Cannot load share partition %s", hosted.key)
            self._drop(hosted, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    async def _read(self, hosted: HostedSharePartition) -> StoredState:
        """Return the stored state. Errors: KafkaError with a code for clients."""
        log = hosted.partition.log
        try:
            return await read_state(
                self.ports.persister,
                hosted.key,
                hosted.delivery.leader_epoch,
                log.leader_epochs,
                log.log_end_offset,
            )
        except KafkaError as error:
            raise KafkaError(error_for_clients(error.code), str(error)) from error

    # ---- changes of records

    def acknowledge(
        self, key: SharePartitionKey, member_id: str, batches: Sequence[AcknowledgedBatch]
    ) -> Steps[asyncio.Future[ErrorCode]]:
        """Acknowledge records; return a future of the error code with which the change was stored.

        Errors: those of `get` and `SharePartition.acknowledge`.
        """
        hosted = self.get(key)
        hosted.require_usable()
        change = yield from hosted.delivery.acknowledge(member_id, batches)
        for batch in batches:
            if len(batch.types) == 1:
                self.counters.acknowledgements[batch.types[0]] += batch.last_offset - batch.first_offset + 1
            else:
                for kind in range(len(self.counters.acknowledgements)):
                    self.counters.acknowledgements[kind] += list(batch.types).count(kind)
        return hosted.writer.store(change)

    def release_member(self, group_id: str, member_id: str) -> None:
        """Release the records that a member of a group has acquired in any share partition of this node."""
        for hosted in list(self._of_groups.get(group_id, {}).values()):
            change = hosted.delivery.release(member_id)
            if change:
                hosted.writer.store(change)

    def expire(self, hosted: HostedSharePartition, lock: AcquisitionLock) -> None:
        """Make the records of an expired lock available."""
        change = hosted.delivery.expire(lock)
        if change:
            self.counters.expired_locks += 1
            hosted.writer.store(change)
            self.wake(hosted)

    def _on_stored(self, hosted: HostedSharePartition, code: ErrorCode) -> None:
        """Check the waiting fetches after a change was stored or rejected."""
        if code:
            self.counters.failed_writes += 1
            error = error_for_clients(code)
            if error in _DROPPING_ERRORS:
                self._drop(hosted, KafkaError(error, f"the state of {hosted.key} is fenced"))
                return
        self._drop_if_unused(hosted)
        self.wake(hosted)

    def wake(self, hosted: HostedSharePartition) -> None:
        """Check the fetches that wait for a share partition."""
        if self.ports.fetches.watched_count:
            self.ports.fetches.check_and_complete(hosted.key)

    # ---- dropping

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Drop the share partitions of partitions that this node leads no more, or in a new epoch."""
        if not self._by_key:
            return
        for topic_partition in changes.removed:
            self._drop_all(topic_partition, leader_epoch=None)
        for partition in changes.followers:
            self._drop_all(partition.topic_partition, leader_epoch=None)
        for partition in changes.leaders:
            self._drop_all(partition.topic_partition, partition.leader_epoch)

    def drop_group(self, group_id: str) -> None:
        """Drop the share partitions of a group that has no session on this node any more.

        Those with changes that are not stored yet are dropped afterwards, unless a member fetches them first.
        """
        for hosted in list(self._of_groups.get(group_id, {}).values()):
            hosted.is_unused = True
            self._drop_if_unused(hosted)

    def _drop_if_unused(self, hosted: HostedSharePartition) -> None:
        if hosted.is_unused and not hosted.writer.has_pending_changes:
            self._drop(hosted, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no session"))

    def _drop_all(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        """Drop the share partitions of a partition that have another leader epoch."""
        for key in list(self._keys.get(topic_partition, ())):
            hosted = self._by_key[key]
            if hosted.delivery.leader_epoch != leader_epoch:
                text = f"{topic_partition} has a new leader or leader epoch"
                self._drop(hosted, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text))

    def _drop(self, hosted: HostedSharePartition, error: KafkaError) -> None:
        key = hosted.key
        if self._by_key.get(key) is not hosted:
            return
        del self._by_key[key]
        _remove_key(self._keys, hosted.partition.topic_partition, key)
        of_group = self._of_groups[key.group_id]
        del of_group[key]
        if not of_group:
            del self._of_groups[key.group_id]
        hosted.error = error
        hosted.delivery.fence()
        self.wake(hosted)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _remove_key(index: dict[NameT, set[SharePartitionKey]], name: NameT, key: SharePartitionKey) -> None:
    keys = index[name]
    keys.discard(key)
    if not keys:
        del index[name]
