"""Serves the share groups (KIP-932) of the partitions of `__consumer_offsets` that this node leads.

The states of share partitions are stored by the share coordinators, which `persister` reaches. A heartbeat
does not wait for the initialization of states: it runs in a task of its own.

I/O: the StateLog, the persister, the end offsets of partitions. To be used from one event loop.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.members.prepared_subscription import NOT_PREPARED
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.groups.services.share_offset_descriptions import ShareOffsetDescriptions
from tidelog.broker.coordinators.groups.services.target_computations import TargetComputations
from tidelog.broker.coordinators.groups.share.coordinator import ShareGroupCoordinator
from tidelog.broker.coordinators.groups.share.group import ShareGroupState
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    StateResult,
)
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.messages.share_group_describe import DescribedGroup
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.protocol.steps import Steps, map_steps

logger = logging.getLogger(__name__)

_UNKNOWN_LAG = -1


class ShareGroupService:
    """Heartbeats, descriptions and offsets of share groups."""

    def __init__(self, shards: Shards[GroupCoordinator], ports: GroupPorts) -> None:
        self._shards = shards
        self._image = ports.image
        self._persister = ports.persister
        self._slices = ports.slices
        self._computations = TargetComputations(shards, ports.slices)
        self.offset_descriptions = ShareOffsetDescriptions(shards, ports)

    # Members

    async def heartbeat(
        self, client: Client, request: ShareGroupHeartbeatRequest
    ) -> ShareGroupHeartbeatResponse:
        """Return the response when its records, and all earlier ones of the partition, are committed.

        Raise KafkaError if the heartbeat is rejected.
        """
        shard = self._shards.active_shard(request.group_id)
        prepared = NOT_PREPARED
        if shard.coordinator.shares.must_prepare(request):
            prepared = await self._slices.complete(shard.coordinator.shares.prepare(client, request))
            # Meanwhile, another node may have become the coordinator.
            shard = self._shards.active_shard(request.group_id)
        try:
            outcome = shard.coordinator.shares.heartbeat(client, request, shard.now(), prepared)
            commit = self._shards.begin_commit(shard, outcome.writes)
        finally:
            # Also after a rejection: otherwise no later heartbeat would start a computation.
            self._computations.start(shard, _shares_of)
        self._slices.release_later(prepared.replaced.ordered)
        if commit is not None:
            await commit
        response, to_initialize = outcome.reply
        if to_initialize:
            self._shards.spawn(self._initialize_in_background(request.group_id, to_initialize))
        return response

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Return the description of a group; errors are in it."""
        try:
            shard = self._shards.active_shard(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
        return (yield from shard.coordinator.shares.describe(group_id))

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Let the groups of created, changed and deleted topics check the metadata."""
        changed = frozenset(names)
        for shard in self._shards.active_shards():
            shard.coordinator.shares.on_topics_changed(changed)

    def on_topics_deleted(self, topic_ids: Collection[UUID]) -> None:
        """Drop the partitions of deleted topics."""
        for shard in self._shards.active_shards():
            shard.perform(shard.coordinator.shares.offsets.forget_topics(topic_ids))

    def state_counts(self) -> Counter[ShareGroupState]:
        """Return the number of share groups in each state, for metrics."""
        counts: Counter[ShareGroupState] = Counter()
        for shard in self._shards.active_shards():
            counts += shard.coordinator.share_group_counts()
        return counts

    # Initialization of states

    async def _initialize_in_background(self, group_id: str, states: Sequence[InitialState]) -> None:
        await self._initialize_states(group_id, states)

    async def _initialize_states(self, group_id: str, states: Sequence[InitialState]) -> list[StateResult]:
        """Initialize states, and write which are initialized. Return the results."""
        results = await self._persister.initialize(states)
        initialized: list[SharePartitionKey] = []
        failed: list[SharePartitionKey] = []
        for state, result in zip(states, results, strict=True):
            (failed if result.error_code else initialized).append(state.share_partition)
        if failed:
            error = next(result for result in results if result.error_code)
            logger.warning(
                "Group %s: cannot initialize the state of %d partitions: %s (%s); retrying with a heartbeat",
                group_id, len(failed), error.error_code.name, error.error_message,
            )  # fmt: skip
        try:
            shard = self._shards.active_shard(group_id)
            writes = shard.coordinator.shares.offsets.on_initialized(group_id, initialized, failed)
            await self._shards.write(shard, writes)
        except KafkaError as error:
            logger.warning("Group %s: cannot write the initialized partitions: %s", group_id, error)
        return results

    # Offsets

    async def alter_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        """Set start offsets. Errors of partitions are in the reply; other errors raise KafkaError."""
        offsets = self._shards.active_shard(request.group_id).coordinator.shares.offsets
        requested = await self._slices.complete(offsets.find_partitions(request))
        # Meanwhile, another node may have become the coordinator.
        shard = self._shards.active_shard(request.group_id)
        outcome = shard.coordinator.shares.offsets.alter(request.group_id, requested, shard.now())
        await self._shards.write(shard, outcome.writes)
        topics, states = outcome.reply
        if states:
            results = await self._initialize_states(request.group_id, states)
            errors = {
                (state.share_partition.topic_id, state.share_partition.partition): result
                for state, result in zip(states, results, strict=True)
                if result.error_code
            }
            if errors:
                with_errors = map_steps(lambda topic: _with_errors(topic, errors), topics)
                return AlterShareGroupOffsetsResponse(responses=await self._slices.complete(with_errors))
        return AlterShareGroupOffsetsResponse(responses=tuple(topics))

    async def delete_offsets(
        self, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        """Delete the states of topics. Errors of topics are in the reply; other errors raise KafkaError."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        names = (topic.topic_name for topic in request.topics)
        offsets = self._shards.active_shard(request.group_id).coordinator.shares.offsets
        topics, unknown = await self._slices.complete(offsets.find_topics(names))
        # Meanwhile, another node may have become the coordinator.
        shard = self._shards.active_shard(request.group_id)
        outcome = shard.coordinator.shares.offsets.begin_deletion(request.group_id, topics)
        await self._shards.write(shard, outcome.writes)
        deletion = outcome.reply
        errors = await self._delete_states(request.group_id, deletion.states)
        results = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=topic_id,
                error_code=errors[topic_id].error_code if topic_id in errors else ErrorCode.NONE,
                error_message=errors[topic_id].error_message if topic_id in errors else None,
            )
            for topic_id, name in deletion.names.items()
        ]
        return DeleteShareGroupOffsetsResponse(responses=(*unknown, *deletion.errors, *results))

    def exists(self, group_id: str) -> bool:
        """Return whether this node coordinates a share group with the id."""
        try:
            shard = self._shards.active_shard(group_id)
        except KafkaError:
            return False
        return shard.coordinator.shares.offsets.exists(group_id)

    async def delete_states_of_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete all states of share groups without members. Return the groups with an error."""
        group_ids = list(dict.fromkeys(group_ids))
        codes = await bounded_gather(map(self._delete_states_of_group, group_ids))
        return {group_id: code for group_id, code in zip(group_ids, codes, strict=True) if code}

    async def _delete_states_of_group(self, group_id: str) -> ErrorCode:
        try:
            shard = self._shards.active_shard(group_id)
            outcome = shard.coordinator.shares.offsets.begin_deletion_of_all(group_id)
            if not outcome.reply:
                return ErrorCode.NONE
            await self._shards.write(shard, outcome.writes)
            failures = await self._delete_states(group_id, outcome.reply)
        except KafkaError as error:
            return error.code
        return next((failure.error_code for failure in failures.values()), ErrorCode.NONE)

    async def _delete_states(
        self, group_id: str, states: Sequence[SharePartitionKey]
    ) -> dict[UUID, StateResult]:
        """Delete states, and write which topics have none any more. Return the topics with an error."""
        if not states:
            return {}
        errors = {
            state.topic_id: result
            for state, result in zip(states, await self._persister.delete(states), strict=True)
            if result.error_code
        }
        deleted = {state.topic_id for state in states} - errors.keys()
        shard = self._shards.active_shard(group_id)
        await self._shards.write(shard, shard.coordinator.shares.offsets.end_deletion(group_id, deleted))
        return errors


def _shares_of(coordinator: GroupCoordinator) -> ShareGroupCoordinator:
    return coordinator.shares


def _with_errors(
    topic: AlterShareGroupOffsetsResponseTopic, errors: Mapping[tuple[UUID, int], StateResult]
) -> Steps[AlterShareGroupOffsetsResponseTopic]:
    """Return the results of a topic with the errors of the share coordinators."""
    partitions = []
    for result in topic.partitions:
        error = errors.get((topic.topic_id, result.partition_index))
        if error is None or result.error_code != ErrorCode.NONE:
            partitions.append(result)
        else:
            partitions.append(replace(result, error_code=error.error_code, error_message=error.error_message))
        yield None
    return replace(topic, partitions=tuple(partitions))
