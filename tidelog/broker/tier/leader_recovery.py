"""Recovers the logs of partitions whose leader was elected without their records, from remote storage.

A restored topic has no local replica: the controller elects its leaders in state RECOVERING (KIP-704). So it
does after an unclean election, whose leader may have lost its disk. A leader in this state that has no local
record continues after the newest remote segment, like a follower whose leader has no earlier local record:

    elected -> metadata of the remote segments is complete -> leader epochs and producers of the newest one
            -> the log restarts at its end -> leader; requests got NOT_LEADER_OR_FOLLOWER until then

A mounted partition recovers at each election, because its records are at the source; segments that appeared
there are registered first (`register_new`). Without remote segments the log starts at 0. A recovery that was
interrupted by a crash is repeated. Apache Kafka differs: its leader always starts at 0.

I/O: reads remote storage in threads. Failures are repeated, with back-off, as long as this node is elected.
Source: KIP-405 (auxiliary state), KIP-704.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.remote_tier import AuxiliaryReader
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.reading.auxiliary import AuxiliaryState
from tidelog.remote.tasks.recovered_log import RecoveredLog, log_position, recovered_log
from tidelog.storage.log.truncation import RemoteState

logger = logging.getLogger(__name__)

_READY_CHECK_S: Final = 0.05
_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class LeaderRecovery:
    """One task for each partition that awaits its recovery.

    `register_new` registers the new segments of a mounted partition. `backoff` has the pauses between two
    attempts. Bounds: one task for each partition of this node.
    """

    def __init__(
        self,
        metadata: RemoteLogMetadataManager,
        reader: AuxiliaryReader,
        replicas: ReplicaManager,
        *,
        clock: Clock,
        randomness: Randomness,
        backoff: ExponentialBackoff,
        register_new: Callable[[Partition], Awaitable[object]],
    ) -> None:
        self._metadata = metadata
        self._register_new = register_new
        self._reader = reader
        self._replicas = replicas
        self._clock = clock
        self._randomness = randomness
        self._backoff = backoff
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._is_closed = False

    def check(self) -> None:
        """Start the tasks of partitions that await recovery; their metadata is being read."""
        if self._is_closed:
            return
        for topic_partition in self._replicas.awaiting_recovery - self._tasks.keys():
            task = asyncio.get_running_loop().create_task(
                self._recover(self._replicas.partitions[topic_partition]), name=f"recover-{topic_partition}"
            )
            self._tasks[topic_partition] = task
            task.add_done_callback(partial(self._on_ended, topic_partition))

    async def close(self) -> None:
        """Cancel all tasks; no further one starts."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_ended(self, topic_partition: TopicPartition, task: asyncio.Task[None]) -> None:
        del self._tasks[topic_partition]
        if not task.cancelled():
            # `check` has ignored the next recovery of the partition while this task existed.
            self.check()

    def _is_awaited(self, partition: Partition) -> bool:
        name = partition.topic_partition
        return name in self._replicas.awaiting_recovery and self._replicas.partitions.get(name) is partition

    async def _recover(self, partition: Partition) -> None:
        failures = 0
        while self._is_awaited(partition):
            try:
                await self._recover_once(partition)
                return
            except Exception as error:
                pause_ms = self._backoff.delay_ms(failures, self._randomness)
                failures += 1
                logger.warning(
                    "Cannot recover the log of %s from remote storage: %s; retrying in %d ms",
                    partition.topic_partition,
                    error,
                    pause_ms,
                )
                await asyncio.sleep(pause_ms / 1000)

    async def _recover_once(self, partition: Partition) -> None:
        name = TopicIdPartition(partition.topic_id, *partition.topic_partition)
        while not self._metadata.is_ready(name):
            await asyncio.sleep(_READY_CHECK_S)
            if not self._is_awaited(partition):
                return
        await self._register_new(partition)
        if not self._is_awaited(partition):
            return
        segments = [
            segment for segment in self._metadata.list_remote_log_segments(name) if segment.state is _FINISHED
        ]
        newest = max(segments, key=log_position, default=None)
        # After an interrupted recovery the log may be complete: then the store is not needed.
        if newest is not None and newest.end_offset >= partition.log.log_end_offset:
            auxiliary = await self._reader.fetch_auxiliary(newest)
            if not self._is_awaited(partition):
                return
            self._restart(partition, recovered_log(segments, newest, auxiliary.leader_epochs), auxiliary)
        self._replicas.on_recovered(partition)

    def _restart(self, partition: Partition, log: RecoveredLog, auxiliary: AuxiliaryState) -> None:
        logger.info(
            "Recovered the log of %s from remote storage: offsets %d to %d, %d leader epochs",
            partition.topic_partition,
            log.start_offset,
            log.end_offset - 1,
            len(log.leader_epochs),
        )
        partition.log.restart_from_remote(
            RemoteState(log.start_offset, log.end_offset, log.leader_epochs, auxiliary.producer_snapshot),
            self._clock.wall_ms(),
        )
