"""The group coordinator of a node: finds the partition that keeps a group, and waits for its log.

The partitions of `__consumer_offsets` that this node leads are `tidelog.broker.coordinators.shared.shards`. A
reply
that depends on the log comes when its records are committed, or after `offsets.commit.timeout.ms` as
COORDINATOR_NOT_AVAILABLE.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.loading import replay_batches
from tidelog.broker.coordinators.groups.member import Client
from tidelog.broker.coordinators.groups.member_memory import MemberMemory
from tidelog.broker.coordinators.groups.pending import Pending
from tidelog.broker.coordinators.groups.records import encode_record
from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.broker.coordinators.groups.transactions import GroupTransactions, TransactionalLog
from tidelog.broker.coordinators.shared.outcome import error_of_append
from tidelog.broker.coordinators.shared.shard import RecordFormat, Shard, ShardState, Timer, TimerHandle
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.delete_groups import DeletableGroupResult
from tidelog.protocol.messages.describe_groups import DescribedGroup
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.protocol.messages.list_groups import ListedGroup
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.protocol.steps import Steps, each

logger = logging.getLogger(__name__)

R = TypeVar("R")


def _random_suffix() -> str:
    return str(uuid.uuid4())


_GroupShard: TypeAlias = Shard[GroupCoordinator]
_Deletion: TypeAlias = tuple[DeletableGroupResult, "asyncio.Future[ErrorCode]"]


class GroupService:
    """All groups whose coordinator this node is."""

    def __init__(
        self,
        config: GroupConfig,
        log: StateLog,
        timer: Timer,
        clock: Clock,
        slices: Slices,
        new_suffix: Callable[[], str] = _random_suffix,
    ) -> None:
        self._config = config
        self._slices = slices
        self._timer = timer
        self.member_memory = MemberMemory(config.group_max_member_bytes)
        self._shards: Shards[GroupCoordinator] = Shards(
            "groups",
            lambda _: GroupCoordinator(config, new_suffix, self.member_memory),
            RecordFormat(encode_record, replay_batches),
            log,
            timer,
            clock,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
        )
        self._expiry_handle: TimerHandle | None = None

    # Life

    def start(self) -> None:
        """Serve requests, and look for expired offsets from now on."""
        self._shards.start()
        self._schedule_expiry()

    async def stop(self) -> None:
        """Tell everybody who waits NOT_COORDINATOR, and end all tasks, for good."""
        if self._expiry_handle is not None:
            self._expiry_handle.cancel()
        await self._shards.stop()

    def on_leadership(self, partition: int) -> None:
        """This node leads `partition` of `__consumer_offsets` now."""
        self._shards.on_leadership(partition)

    def on_resignation(self, partition: int) -> None:
        """This node does not lead `partition` any more."""
        self._shards.on_resignation(partition)

    # Finding the coordinator

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps a group."""
        return self._shards.partition_for(group_id)

    def _shard_of_named(self, group_id: str) -> Shard[GroupCoordinator]:
        """The shard that serves a group, for requests that need the group to have a name."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self._shards.active_shard(group_id)

    # Membership

    def join(self, client: Client, request: JoinGroupRequest, version: int) -> Awaitable[JoinGroupResponse]:
        """Complete when the rebalance is; errors are in the reply.

        If that is cancelled, the client has gone, and a member that is new is dropped.
        """
        try:
            shard = self._shard_of_named(request.group_id)
        except KafkaError as error:
            return _done(JoinGroupResponse(member_id=request.member_id, error_code=error.code))
        outcome = shard.coordinator.join(client, request, version, shard.now())
        shard.perform(outcome.writes)
        group_id, reply = request.group_id, outcome.reply
        joined = _future_of(reply)

        def abandon(future: asyncio.Future[JoinGroupResponse]) -> None:
            if future.cancelled() and shard.state is ShardState.ACTIVE:
                shard.perform(shard.coordinator.abandon_join(group_id, reply, shard.now()))

        if not joined.done():
            joined.add_done_callback(abandon)
        return joined

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
        shard.schedule_tick()
        return response

    async def leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Errors of single members are in the reply, others raise KafkaError."""
        shard = self._shard_of_named(request.group_id)
        outcome = shard.coordinator.leave(request, version, shard.now())
        await self._shards.write(shard, outcome.writes)
        return outcome.reply

    # Offsets

    async def commit_offsets(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        """Topics must have names and ids. Errors of the whole request raise KafkaError."""
        shard = self._shards.active_shard(request.group_id)
        prepared = await self._slices.complete(shard.coordinator.prepare_offsets(request, shard.now()))
        # The group may have moved, and its members changed, meanwhile: now everything is done in one piece.
        shard = self._shards.active_shard(request.group_id)
        outcome = shard.coordinator.commit_offsets(request, version, shard.now(), prepared)
        await self._shards.write(shard, outcome.writes)
        return outcome.reply

    async def fetch_offsets(
        self, groups: Sequence[OffsetFetchRequestGroup], require_stable: bool
    ) -> tuple[OffsetFetchResponseGroup, ...]:
        """Return offsets of topics by name, or with topics None of all; errors are in the reply.

        They are those of this call or later ones, and are read in slices.
        """
        shards = await self._slices.complete(self._find_shards(groups))
        distinct = {shard.partition: shard for shard in shards if isinstance(shard, Shard)}
        outcomes = await asyncio.gather(*(self._confirm(each, require_stable) for each in distinct.values()))
        refused = dict(zip(distinct, outcomes, strict=True))
        return await self._slices.complete(self._read_offsets(groups, shards, refused, require_stable))

    def _find_shards(self, groups: Iterable[OffsetFetchRequestGroup]) -> Steps[list[_GroupShard | ErrorCode]]:
        found: list[_GroupShard | ErrorCode] = []
        for group in groups:
            try:
                found.append(self._shards.active_shard(group.group_id))
            except KafkaError as error:
                found.append(error.code)
            yield None
        return found

    async def _confirm(self, shard: _GroupShard, require_stable: bool) -> ErrorCode:
        """Why the offsets of a shard cannot be told; NONE when they can."""
        try:
            await self._shards.confirm(shard)
            if require_stable and shard.has_uncommitted:
                async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                    await shard.wait_for_commits()
        except KafkaError as error:
            return error.code
        except TimeoutError:
            # The one error that makes clients of all ages look for the coordinator again.
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def _read_offsets(
        self,
        groups: Sequence[OffsetFetchRequestGroup],
        shards: Sequence[_GroupShard | ErrorCode],
        refused: Mapping[int, ErrorCode],
        require_stable: bool,
    ) -> Steps[tuple[OffsetFetchResponseGroup, ...]]:
        answers = []
        for group, shard in zip(groups, shards, strict=True):
            error = shard if isinstance(shard, ErrorCode) else refused[shard.partition]
            topics: tuple[OffsetFetchResponseTopics, ...] = ()
            if isinstance(shard, Shard) and error is ErrorCode.NONE:
                topics = yield from _offsets_in(shard, group, require_stable)
                if shard.state is not ShardState.ACTIVE:
                    error, topics = ErrorCode.NOT_COORDINATOR, ()
            answers.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error, topics=topics))
            yield None
        return tuple(answers)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Errors of single partitions are in the reply, others raise KafkaError."""
        shard = self._shard_of_named(request.group_id)
        outcome = shard.coordinator.delete_offsets(request)
        await self._shards.write(shard, outcome.writes)
        return outcome.reply

    def on_topics_deleted(self, topics: Mapping[str, UUID]) -> None:
        """Topics, by name with their ids, are gone: forget all offsets in them."""
        for shard in self._shards.active_shards():
            shard.perform(shard.coordinator.forget_topics(topics))

    def transactions(self, log: TransactionalLog) -> GroupTransactions:
        """What transactions write to these groups, by way of `log`."""
        return GroupTransactions(self._shards, log)

    # Administration

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> Steps[list[ListedGroup]]:
        """Return the groups of all partitions; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        states, types = tuple(states), tuple(types)
        found: list[ListedGroup] = []
        for shard in self._shards.loaded_shards():
            found += yield from shard.coordinator.list_groups(states, types)
        return found

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """One group with its members; errors are in the reply."""
        try:
            shard = self._shards.active_shard(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        return shard.coordinator.describe_group(group_id, version)

    async def delete_groups(self, group_ids: Iterable[str]) -> tuple[DeletableGroupResult, ...]:
        """Forget groups without members, in slices; errors are in the reply."""
        deletions = await self._slices.complete(each(self._begin_deletion, group_ids))
        writing = [error for _, error in deletions if not error.done()]
        if writing:
            await asyncio.wait(writing, timeout=self._config.offsets_commit_timeout_ms / 1000)
        return await self._slices.complete(each(_deleted, deletions))

    def _begin_deletion(self, group_id: str) -> _Deletion:
        """Have the tombstones of a group written, if it may be deleted."""
        error: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        result = DeletableGroupResult(group_id=group_id)
        try:
            shard = self._shards.active_shard(group_id)
            outcome = shard.coordinator.delete_groups((group_id,))
            (result,) = outcome.reply
            error = self._shards.begin_write(shard, outcome.writes)
        except KafkaError as refusal:
            error.set_result(refusal.code)
        return result, error

    def group_counts(self) -> Counter[GroupState]:
        """How many groups are in each state, for metrics."""
        counts: Counter[GroupState] = Counter()
        for shard in self._shards.active_shards():
            counts += shard.coordinator.group_counts()
        return counts

    # Time

    def _schedule_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._expiry_handle = self._timer.schedule(interval_ms, self._expire)

    def _expire(self) -> None:
        self._schedule_expiry()
        self._shards.spawn(self._expire_all())

    async def _expire_all(self) -> None:
        """Write tombstones for what has expired, one partition at a time."""
        for shard in self._shards.active_shards():
            if shard.state is ShardState.ACTIVE:
                writes = shard.coordinator.expire_offsets(shard.now())
                if writes.records:
                    logger.info("partition %s: %s records expire", shard.partition, len(writes.records))
                    shard.perform(writes)
                await asyncio.sleep(0)


def _offsets_in(
    shard: _GroupShard, group: OffsetFetchRequestGroup, require_stable: bool
) -> Steps[tuple[OffsetFetchResponseTopics, ...]]:
    coordinator = shard.coordinator
    if group.topics is None:
        return (yield from coordinator.fetch_all_offsets(group.group_id, require_stable))
    return (yield from coordinator.fetch_offsets(group.group_id, group.topics, require_stable))


def _deleted(deletion: _Deletion) -> DeletableGroupResult:
    """The result of a group, with the error with which its tombstones were not written."""
    result, writing = deletion
    error = writing.result() if writing.done() else ErrorCode.REQUEST_TIMED_OUT
    return result if error is ErrorCode.NONE else replace(result, error_code=error_of_append(error))


def _done(reply: R) -> asyncio.Future[R]:
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(reply)
    return future


def _future_of(pending: Pending[R]) -> asyncio.Future[R]:
    """A future that completes with `pending`, and may be cancelled."""
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def complete(reply: R) -> None:
        if not future.done():
            future.set_result(reply)

    pending.subscribe(complete)
    return future
