"""The group coordinator of a node: finds the partition that keeps a group, and waits for its log.

Follows leadership: `on_leadership` loads a partition of `__consumer_offsets`, `on_resignation`
forgets it. Until a partition is loaded its groups answer COORDINATOR_LOAD_IN_PROGRESS, and where
it is not led NOT_COORDINATOR. A reply that depends on the log comes when its records are
committed, or after `offsets.commit.timeout.ms` as COORDINATOR_NOT_AVAILABLE; the records may
still be committed then, and are applied when they are.

I/O: the OffsetsLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from broker.clock import Clock
from broker.groups.config import GroupConfig
from broker.groups.coordinator import GroupCoordinator
from broker.groups.member import Client
from broker.groups.offsets_log import OffsetsLog
from broker.groups.outcome import Writes, error_of_append
from broker.groups.partitioning import partition_for
from broker.groups.pending import Pending
from broker.groups.shard import Shard, ShardState, Timer, TimerHandle
from broker.groups.states import GroupState
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

R = TypeVar("R")

LOADS_AT_ONCE_MAX: Final = 4


def _random_suffix() -> str:
    return str(uuid.uuid4())


class GroupService:
    """All groups whose coordinator this node is."""

    def __init__(
        self,
        config: GroupConfig,
        log: OffsetsLog,
        timer: Timer,
        clock: Clock,
        new_suffix: Callable[[], str] = _random_suffix,
    ) -> None:
        self._config = config
        self._log = log
        self._timer = timer
        self._clock = clock
        self._new_suffix = new_suffix
        self._shards: dict[int, Shard] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE_MAX)
        self._expiry_handle: TimerHandle | None = None
        self._is_running = False
        self._has_stopped = False

    # Life

    def start(self) -> None:
        """Serve requests, and look for expired offsets from now on."""
        assert not self._is_running
        self._is_running = True
        self._schedule_expiry()

    async def stop(self) -> None:
        """Tell everybody who waits NOT_COORDINATOR, and end all tasks, for good."""
        self._is_running = False
        self._has_stopped = True
        if self._expiry_handle is not None:
            self._expiry_handle.cancel()
        for partition in list(self._shards):
            self.on_resignation(partition)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_leadership(self, partition: int) -> None:
        """This node leads `partition` now; one that is served already stays as it is.

        One that could not be loaded gets another chance.
        """
        known = self._shards.get(partition)
        if self._has_stopped or (known is not None and known.state is not ShardState.FAILED):
            return
        coordinator = GroupCoordinator(self._config, self._new_suffix)
        shard = Shard(partition, coordinator, self._log, self._timer, self._clock, self._reload)
        self._shards[partition] = shard
        self._spawn(self._load(shard))

    def on_resignation(self, partition: int) -> None:
        """This node does not lead `partition` any more."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.close()

    async def _load(self, shard: Shard) -> None:
        async with self._loads:
            if shard.state is ShardState.LOADING:
                await shard.load()

    def _reload(self, shard: Shard) -> None:
        """What is in memory is not what is in the log: start over from the log."""
        if self._shards.get(shard.partition) is shard:
            logger.error("partition %s: loading groups again after a failed append", shard.partition)
            self.on_resignation(shard.partition)
            if self._is_running:
                self.on_leadership(shard.partition)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    # Finding the coordinator

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps a group."""
        return partition_for(group_id, self._log.partition_count())

    def _shard(self, group_id: str) -> Shard:
        """The shard that serves a group, or why there is none."""
        if not self._is_running:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group coordinator is not running")
        partition = self.partition_for(group_id)
        shard = self._shards.get(partition)
        if shard is not None and shard.state is ShardState.ACTIVE:
            self._check_likely_led(partition)
            return shard
        if shard is not None and shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {partition} is loading")
        raise KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {partition} is not served here")

    def _check_likely_led(self, partition: int) -> None:
        """NOT_COORDINATOR when another node may lead the partition, or when its log is lost here.

        A failed disk takes the log before the metadata takes the leadership, and no client of groups
        knows KAFKA_STORAGE_ERROR.
        """
        try:
            is_likely_led = self._log.is_likely_led(partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if not is_likely_led:
            text = f"partition {partition} may have another coordinator, of whom this node has not heard"
            raise KafkaError(ErrorCode.NOT_COORDINATOR, text)

    def _shard_of_named(self, group_id: str) -> Shard:
        """The same for requests that need the group to have a name."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self._shard(group_id)

    # Membership

    def join(self, client: Client, request: JoinGroupRequest, version: int) -> Awaitable[JoinGroupResponse]:
        """Complete when the rebalance is; errors are in the reply."""
        try:
            shard = self._shard_of_named(request.group_id)
        except KafkaError as error:
            return _done(JoinGroupResponse(member_id=request.member_id, error_code=error.code))
        outcome = shard.coordinator.join(client, request, version, shard.now())
        shard.perform(outcome.writes)
        return _future_of(outcome.reply)

    def sync(self, request: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        """Complete when the leader has handed in the assignment; errors are in the reply."""
        try:
            shard = self._shard_of_named(request.group_id)
        except KafkaError as error:
            return _done(SyncGroupResponse(error_code=error.code))
        outcome = shard.coordinator.sync(request, shard.now())
        shard.perform(outcome.writes)
        return _future_of(outcome.reply)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """While the group is loading nobody knows, so the member is taken to be fine."""
        try:
            shard = self._shard_of_named(request.group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse()
            return HeartbeatResponse(error_code=error.code)
        response = shard.coordinator.heartbeat(request, shard.now())
        shard.arm()
        return response

    async def leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Errors of single members are in the reply, others raise KafkaError."""
        shard = self._shard_of_named(request.group_id)
        outcome = shard.coordinator.leave(request, version, shard.now())
        await self._write(shard, outcome.writes)
        return outcome.reply

    # Offsets

    async def commit_offsets(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        """Topics must have names and ids. Errors of the whole request raise KafkaError."""
        shard = self._shard(request.group_id)
        outcome = shard.coordinator.commit_offsets(request, version, shard.now())
        await self._write(shard, outcome.writes)
        return outcome.reply

    async def fetch_offsets(
        self, group: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Offsets of topics by name, or with topics None of all; errors are in the reply."""
        try:
            shard = self._shard(group.group_id)
            await self._confirm(shard)
            if require_stable and shard.has_uncommitted:
                async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                    await shard.all_committed()
        except KafkaError as error:
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
        except TimeoutError:
            # The one error that makes clients of all ages look for the coordinator again.
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.NOT_COORDINATOR)
        if group.topics is None:
            topics = shard.coordinator.fetch_all_offsets(group.group_id, require_stable)
        else:
            topics = shard.coordinator.fetch_offsets(group.group_id, group.topics, require_stable)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)

    async def _confirm(self, shard: Shard) -> None:
        """Return when no other coordinator had the shard as this was called; else NOT_COORDINATOR."""
        try:
            await self._log.confirm_led(shard.partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if shard.state is not ShardState.ACTIVE:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {shard.partition} moved")

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Errors of single partitions are in the reply, others raise KafkaError."""
        shard = self._shard_of_named(request.group_id)
        outcome = shard.coordinator.delete_offsets(request)
        await self._write(shard, outcome.writes)
        return outcome.reply

    def on_topics_deleted(self, topics: Mapping[str, UUID]) -> None:
        """Topics, by name with their ids, are gone: forget all offsets in them."""
        for shard in self._active_shards():
            shard.perform(shard.coordinator.forget_topics(topics))

    # Administration

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        """The groups of all partitions; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        if not self._is_running:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group coordinator is not running")
        loading = [s.partition for s in self._shards.values() if s.state is ShardState.LOADING]
        if loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partitions {loading} are loading")
        states, types = tuple(states), tuple(types)
        return [
            group for shard in self._active_shards() for group in shard.coordinator.list_groups(states, types)
        ]

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """One group with its members; errors are in the reply."""
        try:
            shard = self._shard(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        return shard.coordinator.describe_group(group_id, version)

    async def delete_group(self, group_id: str) -> DeletableGroupResult:
        """Forget a group without members; errors are in the reply."""
        try:
            shard = self._shard(group_id)
            outcome = shard.coordinator.delete_groups((group_id,))
            await self._write(shard, outcome.writes)
        except KafkaError as error:
            return DeletableGroupResult(group_id=group_id, error_code=error.code)
        return outcome.reply[0]

    def group_counts(self) -> Counter[GroupState]:
        """How many groups are in each state, for metrics."""
        counts: Counter[GroupState] = Counter()
        for shard in self._active_shards():
            counts += shard.coordinator.group_counts()
        return counts

    def _active_shards(self) -> list[Shard]:
        return [shard for _, shard in sorted(self._shards.items()) if shard.state is ShardState.ACTIVE]

    # Writing

    async def _write(self, shard: Shard, writes: Writes) -> None:
        """Append, replay and wait for the commit; KafkaError with the code for the reply."""
        settled: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def done(error: ErrorCode) -> None:
            if not settled.done():
                settled.set_result(error)

        shard.perform(writes, done)
        try:
            if not settled.done():
                async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                    await settled
            error = settled.result()
        except TimeoutError:
            error = ErrorCode.REQUEST_TIMED_OUT
        if error is not ErrorCode.NONE:
            raise KafkaError(error_of_append(error), f"partition {shard.partition}: {error.text}")

    def _schedule_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._expiry_handle = self._timer.schedule(interval_ms, self._expire)

    def _expire(self) -> None:
        self._schedule_expiry()
        self._spawn(self._expire_all())

    async def _expire_all(self) -> None:
        """Write tombstones for what has expired, one partition at a time."""
        for shard in self._active_shards():
            if shard.state is ShardState.ACTIVE:
                writes = shard.coordinator.expire_offsets(shard.now())
                if writes.records:
                    logger.info("partition %s: %s records expire", shard.partition, len(writes.records))
                    shard.perform(writes)
                await asyncio.sleep(0)


def _done(reply: R) -> asyncio.Future[R]:
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(reply)
    return future


def _future_of(pending: Pending[R]) -> asyncio.Future[R]:
    """A future that completes with `pending`; cancelling it, when the peer has gone, does no harm."""
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def complete(reply: R) -> None:
        if not future.done():
            future.set_result(reply)

    pending.subscribe(complete)
    return future
