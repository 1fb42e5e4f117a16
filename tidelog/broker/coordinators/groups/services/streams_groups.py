"""Serves the streams groups (KIP-1071) of the partitions of `__consumer_offsets` that this node leads.

The target assignments of large groups are computed in slices, in tasks of their own.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.services.target_computations import TargetComputations
from tidelog.broker.coordinators.groups.streams.coordinator import StreamsGroupCoordinator
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.coordinators.groups.streams.heartbeat import StreamsHeartbeatReply
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.streams_group_describe import DescribedGroup
from tidelog.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tidelog.protocol.steps import Steps


class StreamsGroupService:
    """Heartbeats and descriptions of streams groups."""

    def __init__(self, shards: Shards[GroupCoordinator], slices: Slices) -> None:
        self._shards = shards
        self._computations = TargetComputations(shards, slices)

    async def heartbeat(self, client: Client, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeatReply:
        """Return the reply when its records, and all earlier ones of the partition, are committed.

        Raise KafkaError if the request is rejected.
        """
        shard = self._shards.active_shard(request.group_id)
        try:
            outcome = shard.coordinator.streams.heartbeat(client, request, shard.now())
            commit = self._shards.begin_commit(shard, outcome.writes)
        finally:
            # Also after a rejection: otherwise no later heartbeat would start a computation.
            self._computations.start(shard, _streams_of)
        if commit is not None:
            await commit
        return outcome.reply

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Return the description of a group; errors are in it."""
        try:
            shard = self._shards.active_shard(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
        return (yield from shard.coordinator.streams.describe(group_id))

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Let the groups of created, changed and deleted topics check the metadata."""
        changed = frozenset(names)
        for shard in self._shards.active_shards():
            shard.coordinator.streams.on_topics_changed(changed)

    def state_counts(self) -> Counter[StreamsGroupState]:
        """Return the number of streams groups in each state, for metrics."""
        counts: Counter[StreamsGroupState] = Counter()
        for shard in self._shards.active_shards():
            counts += shard.coordinator.streams_group_counts()
        return counts


def _streams_of(coordinator: GroupCoordinator) -> StreamsGroupCoordinator:
    return coordinator.streams
