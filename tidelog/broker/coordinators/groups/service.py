"""The group coordinator of a node: finds the partition that stores a group, and waits for its log.

The partitions of `__consumer_offsets` that this node leads are `tidelog.broker.coordinators.shared.shards`.
A reply that depends on the log is sent when its records are committed, or after `offsets.commit.timeout.ms`
as COORDINATOR_NOT_AVAILABLE.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeAlias, TypeVar
from uuid import UUID

from tidelog.broker.coordinators.groups.administration import filter_of
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.classic.member_memory import MemberMemory
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroupState
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator, NodeTotals
from tidelog.broker.coordinators.groups.loading import replay_batches
from tidelog.broker.coordinators.groups.offset_store import OffsetTable
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.groups.rebalance_counts import RebalanceCounts
from tidelog.broker.coordinators.groups.records.coordinator_records import encode_record, size_bytes_min
from tidelog.broker.coordinators.groups.services.consumer_groups import ConsumerGroupService
from tidelog.broker.coordinators.groups.services.offset_commits import OffsetCommitService
from tidelog.broker.coordinators.groups.services.share_groups import ShareGroupService
from tidelog.broker.coordinators.groups.services.streams_groups import StreamsGroupService
from tidelog.broker.coordinators.groups.transactions import GroupTransactions, TransactionalLog
from tidelog.broker.coordinators.shared.coordinator import RecordFormat
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, error_of_append
from tidelog.broker.coordinators.shared.shard import Shard, ShardPorts, ShardState
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.coordinators.shared.timer import TimerHandle
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.delete_groups import DeletableGroupResult
from tidelog.protocol.messages.describe_groups import DescribedGroup
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.protocol.messages.list_groups import ListedGroup
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.protocol.steps import Steps, map_items

logger = logging.getLogger(__name__)

R = TypeVar("R")


_GroupShard: TypeAlias = Shard[GroupCoordinator]
_Deletion: TypeAlias = tuple[DeletableGroupResult, "asyncio.Future[ErrorCode]"]


class GroupService:
    """Serves the groups of the partitions of `__consumer_offsets` that this node leads."""

    def __init__(self, config: GroupConfig, ports: GroupPorts) -> None:
        self._config = config
        self._slices = ports.slices
        self._timer = ports.timer
        self.member_memory = MemberMemory(config.group_max_member_bytes)
        self.rebalances = RebalanceCounts()
        totals = NodeTotals(self.member_memory, self.rebalances)
        self._shards: Shards[GroupCoordinator] = Shards(
            "groups",
            lambda _: GroupCoordinator(
                config,
                ports.consumer_config,
                ports.image,
                ports.new_suffix,
                ports.share_config,
                ports.streams_config,
                totals,
            ),
            RecordFormat(encode_record, replay_batches, size_bytes_min),
            ShardPorts(ports.log, ports.timer, ports.clock),
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            append_linger_ms=config.group_coordinator_append_linger_ms,
        )
        self.offset_commits = OffsetCommitService(
            self._shards, ports.slices, config.offset_metadata_max_bytes
        )
        self.consumer_groups = ConsumerGroupService(self._shards, ports)
        self.share_groups = ShareGroupService(self._shards, ports)
        self.streams_groups = StreamsGroupService(self._shards, ports.slices)
        self._expiration_handle: TimerHandle | None = None

    # Start and stop

    def start(self) -> None:
        """Serve requests from now on, and remove expired offsets."""
        self._shards.start()
        self._schedule_expiration()

    async def stop(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR and end all tasks."""
        if self._expiration_handle is not None:
            self._expiration_handle.cancel()
        await self._shards.stop()

    def on_leadership(self, partition: int) -> None:
        """Load `partition` of `__consumer_offsets`, of which this node has become the leader."""
        self._shards.on_leadership(partition)

    def on_resignation(self, partition: int) -> None:
        """Unload `partition`, because this node is no longer its leader."""
        self._shards.on_resignation(partition)

    # Finding the coordinator

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that stores a group."""
        return self._shards.partition_for(group_id)

    def _require_shard(self, group_id: str) -> Shard[GroupCoordinator]:
        """Return the shard that serves a group. Raise INVALID_GROUP_ID for an empty id."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self._shards.active_shard(group_id)

    # Membership

    def join(self, client: Client, request: JoinGroupRequest, version: int) -> Awaitable[JoinGroupResponse]:
        """Return a future that completes with the rebalance; errors are in the reply.

        If the future is cancelled, the client has disconnected, and a new member is removed.
        """
        try:
            shard = self._require_shard(request.group_id)
        except KafkaError as error:
            return _completed(JoinGroupResponse(member_id=request.member_id, error_code=error.code))
        outcome = shard.coordinator.membership.join(client, request, version, shard.now())
        shard.perform(outcome.writes)
        self.consumer_groups.start_computations(shard)
        group_id, reply = request.group_id, outcome.reply
        joined = _future_of(reply)

        def on_done(future: asyncio.Future[JoinGroupResponse]) -> None:
            if future.cancelled() and shard.state is ShardState.ACTIVE:
                shard.perform(shard.coordinator.membership.abandon_join(group_id, reply, shard.now()))

        if not joined.done():
            joined.add_done_callback(on_done)
        return joined

    def sync(self, request: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        """Return a future that completes with the leader's assignment; errors are in the reply."""
        try:
            shard = self._require_shard(request.group_id)
        except KafkaError as error:
            return _completed(SyncGroupResponse(error_code=error.code))
        outcome = shard.coordinator.membership.sync(request, shard.now())
        shard.perform(outcome.writes)
        return _future_of(outcome.reply)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
        """Restart the session of a member. While the group is loading, the response has no error.

        Return an awaitable of the response if earlier records of the partition must be committed before.
        """
        try:
            shard = self._require_shard(request.group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse()
            return HeartbeatResponse(error_code=error.code)
        response = shard.coordinator.membership.heartbeat(request, shard.now())
        result = self._shards.respond_after(shard, NO_WRITES, response)
        return result if isinstance(result, HeartbeatResponse) else _after_commit(result)

    async def leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Remove members from a group. Their errors are in the reply; other errors raise KafkaError."""
        shard = self._require_shard(request.group_id)
        prepared = await self._slices.complete(shard.coordinator.membership.prepare_leave(request, version))
        # The group may have moved, and its members may have changed: from here on, all is one step.
        shard = self._require_shard(request.group_id)
        outcome = shard.coordinator.membership.leave(request, version, shard.now(), prepared)
        await self._shards.write(shard, outcome.writes)
        return outcome.reply

    # Offsets

    async def fetch_offsets(
        self, groups: Sequence[OffsetFetchRequestGroup], require_stable: bool
    ) -> Steps[tuple[OffsetFetchResponseGroup, ...]]:
        """Return the steps that read the offsets of topics by name, or of all topics if None.

        Errors are in the reply. The offsets are at least as new as this call.
        """
        shards = await self._slices.complete(self._find_shards(groups))
        distinct = {shard.partition: shard for shard in shards if isinstance(shard, Shard)}
        outcomes = await asyncio.gather(*(self._confirm(each, require_stable) for each in distinct.values()))
        errors = dict(zip(distinct, outcomes, strict=True))
        return self._read_offsets(groups, shards, errors, require_stable)

    def _find_shards(self, groups: Iterable[OffsetFetchRequestGroup]) -> Steps[list[_GroupShard | ErrorCode]]:
        """Return the shard that serves each group, or the error code."""
        shards: list[_GroupShard | ErrorCode] = []
        for group in groups:
            try:
                shards.append(self._shards.active_shard(group.group_id))
            except KafkaError as error:
                shards.append(error.code)
            yield None
        return shards

    async def _confirm(self, shard: _GroupShard, require_stable: bool) -> ErrorCode:
        """Return NONE if the offsets of a shard are confirmed, or the error."""
        try:
            await self._shards.confirm(shard)
            if require_stable and shard.has_uncommitted:
                async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                    await shard.wait_for_commits()
        except KafkaError as error:
            return error.code
        except TimeoutError:
            # The only error upon which clients of all versions look up the coordinator again.
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def _read_offsets(
        self,
        groups: Sequence[OffsetFetchRequestGroup],
        shards: Sequence[_GroupShard | ErrorCode],
        errors: Mapping[int, ErrorCode],
        require_stable: bool,
    ) -> Steps[tuple[OffsetFetchResponseGroup, ...]]:
        """Return the offsets of each group, or its error; `errors` has those of the shards by partition."""
        results = []
        for group, shard in zip(groups, shards, strict=True):
            if isinstance(shard, ErrorCode):
                error = shard
            elif shard.state is ShardState.ACTIVE:
                error = errors[shard.partition]
            else:
                error = ErrorCode.NOT_COORDINATOR
            topics: tuple[OffsetFetchResponseTopics, ...] = ()
            if isinstance(shard, Shard) and error is ErrorCode.NONE:
                error = _error_of_sender(shard, group)
            if isinstance(shard, Shard) and error is ErrorCode.NONE:
                topics = yield from _offsets_in(shard, group, require_stable)
                if shard.state is not ShardState.ACTIVE:
                    error, topics = ErrorCode.NOT_COORDINATOR, ()
            results.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error, topics=topics))
            yield None
        return tuple(results)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete offsets. Errors of single partitions are in the reply; other errors raise KafkaError."""
        shard = self._require_shard(request.group_id)
        outcome = shard.coordinator.offsets.delete(request)
        await self._shards.write(shard, outcome.writes)
        return outcome.reply

    def on_topics_deleted(self, topics: Mapping[str, UUID]) -> None:
        """Delete the offsets of deleted topics, which are given by name with their ids."""
        for shard in self._shards.active_shards():
            shard.perform(shard.coordinator.offsets.delete_of_topics(topics))
        self.share_groups.on_topics_deleted(topics.values())

    def transactions(self, log: TransactionalLog) -> GroupTransactions:
        """Return the writes of transactions to these groups, which use `log`."""
        return GroupTransactions(self._shards, log, self._slices)

    # Administration

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> Steps[list[ListedGroup]]:
        """Return the groups of all partitions with one of `states` and one of `types`, ignoring case.

        An empty filter selects all. Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS while a partition is being
        loaded.
        """
        state_filter, type_filter = (yield from filter_of(states)), (yield from filter_of(types))
        groups: list[ListedGroup] = []
        for shard in self._shards.loaded_shards():
            groups += yield from shard.coordinator.administration.list_groups(state_filter, type_filter)
        return groups

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """Return one group with its members; errors are in the reply."""
        try:
            shard = self._shards.active_shard(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        return shard.coordinator.administration.describe_group(group_id, version)

    async def delete_groups(self, group_ids: Iterable[str]) -> tuple[DeletableGroupResult, ...]:
        """Delete groups without members, in slices; errors are in the reply.

        The states of share groups are deleted first: without the group, nothing would delete them.
        """
        group_ids = list(group_ids)
        are_share_groups = await self._slices.complete(map_items(self.share_groups.exists, group_ids))
        errors = await self.share_groups.delete_states_of_groups(compress(group_ids, are_share_groups))
        deletions = await self._slices.complete(
            map_items(self._begin_deletion, [each for each in group_ids if each not in errors])
        )
        writing = [error for _, error in deletions if not error.done()]
        if writing:
            await asyncio.wait(writing, timeout=self._config.offsets_commit_timeout_ms / 1000)
        failed = (
            DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in errors.items()
        )
        return (*await self._slices.complete(map_items(_result_of, deletions)), *failed)

    def _begin_deletion(self, group_id: str) -> _Deletion:
        """Write the tombstones of a group, if it may be deleted."""
        error: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        result = DeletableGroupResult(group_id=group_id)
        try:
            shard = self._shards.active_shard(group_id)
            outcome = shard.coordinator.administration.delete_groups((group_id,))
            (result,) = outcome.reply
            error = self._shards.begin_write(shard, outcome.writes)
        except KafkaError as failure:
            error.set_result(failure.code)
        return result, error

    def consumer_group_counts(self) -> Counter[ConsumerGroupState]:
        """Return the number of consumer groups in each state, for metrics."""
        counts: Counter[ConsumerGroupState] = Counter()
        for shard in self._shards.active_shards():
            counts += shard.coordinator.consumer_group_counts()
        return counts

    def group_counts(self) -> Counter[GroupState]:
        """Return the number of classic groups in each state, for metrics."""
        counts: Counter[GroupState] = Counter()
        for shard in self._shards.active_shards():
            counts += shard.coordinator.group_counts()
        return counts

    def committed_offsets(self) -> list[OffsetTable]:
        """Return the committed offsets of the groups that this node coordinates, for metrics."""
        return [shard.coordinator.committed_offsets for shard in self._shards.active_shards()]

    # Expiration

    def _schedule_expiration(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._expiration_handle = self._timer.schedule(interval_ms, self._expire)

    def _expire(self) -> None:
        self._schedule_expiration()
        self._shards.spawn(self._expire_all())

    async def _expire_all(self) -> None:
        """Write tombstones for expired offsets and groups, a limited number of groups at a time."""
        for shard in self._shards.active_shards():
            count = 0
            parts = shard.coordinator.expiration.expire(shard.now())
            while shard.state is ShardState.ACTIVE and (writes := shard.next_part(parts)) is not None:
                if writes.records:
                    count += len(writes.records)
                    shard.perform(writes)
                await asyncio.sleep(0)
            if count:
                text = "Removed %d expired offsets and groups from partition %d of %s"
                logger.info(text, count, shard.partition, GROUP_METADATA_TOPIC)


def _error_of_sender(shard: _GroupShard, group: OffsetFetchRequestGroup) -> ErrorCode:
    """Return the error of a member of a consumer group that may not fetch offsets, else NONE."""
    try:
        shard.coordinator.offset_fetch.check_sender(group)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _offsets_in(
    shard: _GroupShard, group: OffsetFetchRequestGroup, require_stable: bool
) -> Steps[tuple[OffsetFetchResponseTopics, ...]]:
    coordinator = shard.coordinator
    if group.topics is None:
        return (yield from coordinator.offset_fetch.fetch_all(group.group_id, require_stable))
    return (yield from coordinator.offset_fetch.fetch(group.group_id, group.topics, require_stable))


async def _after_commit(response: Awaitable[HeartbeatResponse]) -> HeartbeatResponse:
    """Return the response of a heartbeat, or the error of the commit for which it waits."""
    try:
        return await response
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)


def _result_of(deletion: _Deletion) -> DeletableGroupResult:
    """Return the result of a group, with the error if its tombstones could not be written."""
    result, writing = deletion
    error = writing.result() if writing.done() else ErrorCode.REQUEST_TIMED_OUT
    return result if error is ErrorCode.NONE else replace(result, error_code=error_of_append(error))


def _completed(reply: R) -> asyncio.Future[R]:
    """Return a future that has a result already."""
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(reply)
    return future


def _future_of(pending: Pending[R]) -> asyncio.Future[R]:
    """Return a future that completes with `pending` and may be cancelled."""
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def complete(reply: R) -> None:
        if not future.done():
            future.set_result(reply)

    pending.subscribe(complete)
    return future
