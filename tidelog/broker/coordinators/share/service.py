"""The share coordinator of a node: finds the partition that stores a state, and waits for its log.

The partitions of `__share_group_state` that this node leads are `tidelog.broker.coordinators.shared.shards`.
A result that depends on the log is returned when its record is committed, or after
`share.coordinator.write.timeout.ms` as COORDINATOR_NOT_AVAILABLE.

Periodic work, as in Kafka only while share groups are enabled: snapshots of share partitions without updates,
and the deletion of records that no load needs.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.share.config import ShareCoordinatorConfig
from tidelog.broker.coordinators.share.coordinator import PartitionCount, ShareCoordinator
from tidelog.broker.coordinators.share.loading import replay_batches
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.broker.coordinators.share.records import ShareStateRecord, encode_record
from tidelog.broker.coordinators.shared.coordinator import RecordFormat
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.shared.shard import Shard, ShardPorts, ShardState
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.coordinators.shared.timer import Timer, TimerHandle
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", StateResult, StoredState, StateSummary)
_Shard = Shard[ShareCoordinator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorPorts:
    """The functions of the node that a share coordinator calls.

    `partition_count` returns the number of partitions of a topic, 0 for an unknown topic. `is_enabled`
    returns whether the cluster has share groups. `delete_records_before` deletes the records of a partition
    of `__share_group_state` before an offset; it raises KafkaError.
    """

    log: StateLog
    timer: Timer
    clock: Clock
    partition_count: PartitionCount
    is_enabled: Callable[[], bool]
    delete_records_before: Callable[[int, Offset], None]


class ShareCoordinatorService:
    """Serves the states in the partitions of `__share_group_state` that this node leads.

    Implements `SharePersister` for these states; results for other states have the error NOT_COORDINATOR.
    """

    def __init__(self, config: ShareCoordinatorConfig, ports: ShareCoordinatorPorts) -> None:
        self._config = config
        self._ports = ports
        self._shards: Shards[ShareCoordinator] = Shards(
            "share group state",
            lambda partition: ShareCoordinator(config, ports.partition_count),
            RecordFormat(encode_record, replay_batches),
            ShardPorts(ports.log, ports.timer, ports.clock),
            commit_timeout_ms=config.share_coordinator_write_timeout_ms,
            append_linger_ms=config.share_coordinator_append_linger_ms,
        )
        self._handles: dict[str, TimerHandle] = {}
        self._log_starts: dict[int, Offset] = {}
        """The offset up to which the records of each partition were deleted last."""

    # Start and stop

    def start(self) -> None:
        """Serve requests from now on, write snapshots, and delete records that are not needed."""
        self._shards.start()
        self._schedule_snapshots()
        self._schedule_pruning()

    async def stop(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR and end all tasks."""
        for handle in self._handles.values():
            handle.cancel()
        await self._shards.stop()

    def on_leadership(self, partition: int) -> None:
        """Load `partition` of `__share_group_state`, of which this node has become the leader."""
        self._shards.on_leadership(partition)

    def on_resignation(self, partition: int) -> None:
        """Unload `partition`, because this node is no longer its leader."""
        self._log_starts.pop(partition, None)
        self._shards.on_resignation(partition)

    def on_topics_deleted(self, topic_ids: Collection[UUID]) -> None:
        """Begin to delete the states of deleted topics."""
        for shard in self._shards.active_shards():
            self._shards.spawn(_perform_all(shard, shard.coordinator.deletions_of_topics(topic_ids)))

    def partition_for(self, share_partition: SharePartitionKey) -> int:
        """Return the partition of `__share_group_state` that stores a state."""
        return self._shards.partition_for(share_partition.coordinator_key)

    def state_count(self) -> int:
        """Return the number of states in the partitions that this node leads, for metrics."""
        return sum(shard.coordinator.state_count() for shard in self._shards.active_shards())

    # Requests

    async def initialize(self, states: Sequence[InitialState]) -> list[StateResult]:
        """Create the states, or replace those with a lower state epoch."""

        def run(state: InitialState) -> Awaitable[StateResult]:
            return self._run(
                state.share_partition,
                lambda coordinator, now: coordinator.initialize(state, now),
                StateResult,
            )

        return await bounded_gather(map(run, states))

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState]:
        """Return the states, and fence the leaders of earlier leader epochs."""

        def run(read: StateRead) -> Awaitable[StoredState]:
            return self._run(
                read.share_partition, lambda coordinator, now: coordinator.read(read, now), StoredState
            )

        return await bounded_gather(map(run, reads))

    async def write(self, writes: Sequence[StateWrite]) -> list[StateResult]:
        """Change the states."""

        def run(write: StateWrite) -> Awaitable[StateResult]:
            return self._run(
                write.share_partition, lambda coordinator, now: coordinator.write(write, now), StateResult
            )

        return await bounded_gather(map(run, writes))

    async def delete(self, share_partitions: Sequence[SharePartitionKey]) -> list[StateResult]:
        """Delete the states. It is no error if a state does not exist."""

        def run(share_partition: SharePartitionKey) -> Awaitable[StateResult]:
            return self._run(
                share_partition, lambda coordinator, _: coordinator.delete(share_partition), StateResult
            )

        return await bounded_gather(map(run, share_partitions))

    async def read_summary(self, reads: Sequence[StateRead]) -> list[StateSummary]:
        """Return the states without their batches."""

        def run(read: StateRead) -> Awaitable[StateSummary]:
            return self._run(
                read.share_partition,
                lambda coordinator, _: Outcome(coordinator.read_summary(read)),
                StateSummary,
            )

        return await bounded_gather(map(run, reads))

    async def _run(
        self,
        share_partition: SharePartitionKey,
        command: Callable[[ShareCoordinator, Moment], Outcome[ResultT]],
        result_type: type[ResultT],
    ) -> ResultT:
        """Run a command. Return its reply after the commit, or a result with the error.

        Commands for different states are independent: their records are appended together.
        """
        try:
            shard = self._shards.active_shard(share_partition.coordinator_key)
            return await self._shards.write_batched(
                shard, lambda coordinator: command(coordinator, shard.now()), share_partition
            )
        except KafkaError as error:
            return result_type(error_code=error.code, error_message=str(error))

    # Periodic work

    def _schedule_snapshots(self) -> None:
        interval_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        self._handles["snapshots"] = self._ports.timer.schedule(interval_ms, self._on_snapshots_scheduled)

    def _on_snapshots_scheduled(self) -> None:
        self._schedule_snapshots()
        if self._ports.is_enabled():
            self._shards.spawn(self._snapshot_cold_partitions())

    async def _snapshot_cold_partitions(self) -> None:
        for shard in self._shards.active_shards():
            await _perform_all(shard, shard.coordinator.snapshots_of_cold_partitions(shard.now()))

    def _schedule_pruning(self) -> None:
        interval_ms = self._config.share_coordinator_state_topic_prune_interval_ms
        self._handles["pruning"] = self._ports.timer.schedule(interval_ms, self._on_pruning_scheduled)

    def _on_pruning_scheduled(self) -> None:
        self._schedule_pruning()
        if self._ports.is_enabled():
            self._shards.spawn(self._prune())

    async def _prune(self) -> None:
        for shard in self._shards.active_shards():
            if shard.state is ShardState.ACTIVE:
                self._prune_partition(shard)
                await asyncio.sleep(0)

    def _prune_partition(self, shard: _Shard) -> None:
        """Delete the records of a partition that no load needs. An error leaves them to the next time."""
        offset = shard.coordinator.lowest_needed_offset()
        if offset is None or self._log_starts.get(shard.partition) == offset:
            return
        try:
            self._ports.delete_records_before(shard.partition, offset)
        except KafkaError as error:
            logger.warning(
                "Cannot delete records of __share_group_state-%s before offset %s: %s; retrying later",
                shard.partition, offset, error,
            )  # fmt: skip
        else:
            self._log_starts[shard.partition] = offset


async def _perform_all(shard: _Shard, parts: Iterator[Writes[ShareStateRecord]]) -> None:
    """Perform writes while the shard is active; other requests are served after each."""
    while shard.state is ShardState.ACTIVE and (writes := shard.next_part(parts)) is not None:
        shard.perform(writes)
        await asyncio.sleep(0)
