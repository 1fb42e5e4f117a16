"""The move of one replica to another log directory, step by step.

    copying -> assigned -> replaced -> old files removed
       |          |
       +----------+-> cancelled or impossible: the metadata names the current directory again

When the copy is almost complete, the controller is requested to assign the new directory to the replica
(KIP-858). The files are replaced only after the metadata names that directory. If its disk fails later, the
controller therefore elects another leader.

I/O: the steps of the copy run in a thread, one at a time. Flushes and compaction of the log wait meanwhile
where they would change files that are being copied.
Source: ReplicaAlterLogDirsThread of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.logs.cleaning.log_cleaner import LogCleaner
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.replication.directory_assignments import DirectoryAssignments
from tidelog.cluster.features import supports_directories
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.storage.directories.future_log import COPY_BYTES_MAX, CopyStep, SourceFailure
from tidelog.storage.directories.log_directories import LogDirectories
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.directories.log_move import LogMove
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage

logger = logging.getLogger(__name__)

POLL_S: Final = 0.05
"""The pause until it is checked again whether the metadata has changed, or whether the rate is low enough."""
RETRY_S: Final = 1.0
"""The pause after a full disk or a lack of descriptors."""
ASSIGN_AGAIN_MS: Final = 5_000
"""The time after which an assignment that is not in the metadata is requested again."""
BYTES_MIN: Final = 16 << 10
"""The minimum size of a step while the rate is limited."""
CATCH_UP_STEPS_MAX: Final = 50
"""The maximum number of steps with paused flushes, until the log is flushed and they begin from the start."""
_TEMPORARY_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePorts:
    """What every move uses; `image` returns the current metadata, `directory_ids` has the ids by path."""

    broker_id: BrokerId
    directories: LogDirectories
    directory_ids: Callable[[str], UUID | None]
    flusher: Flusher
    cleaner: LogCleaner
    assignments: DirectoryAssignments
    image: Callable[[], MetadataImage]
    quota: ReplicationQuota
    executor: Executor
    clock: Clock


class _Ended(Exception):
    """The move is cancelled or no longer possible, or the node stops."""


class ReplicaMove:
    """One move, to be run once. `cancel` and `stop` may be called at any time."""

    def __init__(self, ports: MovePorts, partition: Partition, move: LogMove) -> None:
        self.move = move
        self._ports = ports
        self._topic_id = partition.topic_id
        self._index = partition.topic_partition.partition
        self._source_id = ports.directory_ids(move.source.path)
        self._target_id = ports.directory_ids(move.target.path)
        self._assigned_ms: int | None = None
        self._is_cancelled = False
        self._is_stopped = False
        self.is_replaced = False
        """Whether the log is in the target directory."""
        self.done = asyncio.Event()

    @property
    def target(self) -> LogDirectory:
        """The directory to which the replica is moved."""
        return self.move.target

    def cancel(self) -> None:
        """Leave the replica where it is, and remove the copy."""
        self._is_cancelled = True
        self.move.hide()

    def stop(self) -> None:
        """End the move because the node stops; the next start begins it again."""
        self._is_stopped = True

    async def run(self) -> None:
        """Move the replica. Errors are handled: those of a disk take its log directory offline."""
        ports, move = self._ports, self.move
        logger.info("Moving %s from %s to %s", move.topic_partition, move.source.path, move.target.path)
        await ports.cleaner.pause(move.log)
        try:
            await self._copy_and_replace()
        except _Ended:
            await self._end()
        finally:
            ports.cleaner.resume(move.log)
            self.done.set()

    async def _copy_and_replace(self) -> None:
        future = self.move.future
        while not self.is_replaced:
            self._require_possible()
            is_copied = future.is_almost_complete
            if is_copied and self._is_assigned():
                await self._replace()
                step = None
            elif (step := await self._next_step()) is not None:
                await self._wait_for_quota()
                await self._run(step)
            if (is_copied or step is None) and not self.is_replaced:
                # The log may grow continuously; it need not be followed closely until it is assigned.
                await asyncio.sleep(POLL_S)
        await self._remove_old_files()

    def _require_possible(self) -> None:
        if self._is_cancelled or self._is_stopped or not self.move.is_possible:
            raise _Ended

    # -- copying

    async def _next_step(self) -> CopyStep | None:
        rate = self._ports.quota.rate
        bytes_max = COPY_BYTES_MAX if rate is None else max(BYTES_MIN, min(rate, COPY_BYTES_MAX))
        try:
            step = self.move.future.next_step(bytes_max)
        except OSError as error:
            await self._on_failed(self.move.source, error)
            return None
        if step is None:
            await asyncio.sleep(0)
        return step

    async def _wait_for_quota(self) -> None:
        ports = self._ports
        while ports.quota.is_exceeded(ports.clock.monotonic_ms()):
            await asyncio.sleep(POLL_S)
            self._require_possible()

    async def _run(self, step: CopyStep) -> bool:
        """Run one step in a thread; return whether it has succeeded."""
        ports, move = self._ports, self.move
        try:
            await self._in_thread(step.run)
        except SourceFailure as error:
            if not move.future.is_outdated:
                await self._on_failed(move.source, error.__cause__ or error)
            return False
        except (OSError, StorageFailure) as error:
            await self._on_failed(move.target, error)
            return False
        step.on_done()
        ports.quota.record(move.topic_partition, step.size_bytes, ports.clock.monotonic_ms())
        return True

    async def _in_thread(self, work: Callable[[], object]) -> None:
        """Run `work` in a thread; a cancelled task also waits for its end."""
        running = asyncio.get_running_loop().run_in_executor(self._ports.executor, work)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    async def _on_failed(self, directory: LogDirectory, error: BaseException) -> None:
        """Wait if the operation may succeed later; else take the directory offline."""
        is_temporary = isinstance(error, OSError) and error.errno in _TEMPORARY_ERRORS
        if not is_temporary and not is_descriptor_shortage(error) and isinstance(error, Exception):
            self._ports.directories.operation_failed(directory, error, "move of a replica")
            return
        text = f"{self.move.topic_partition} cannot be moved now: {error}"
        directory.operation_refused(text, is_shortage=not is_temporary)
        await asyncio.sleep(RETRY_S)

    # -- the assignment in the metadata

    def _is_assigned(self) -> bool:
        """Return whether the metadata names the target directory; request it if it does not."""
        ports = self._ports
        if self._target_id is None or not supports_directories(ports.image()):
            return True
        topic = ports.image().topics_by_id.get(self._topic_id)
        partition = None if topic is None else topic.partitions.get(self._index)
        if partition is None:
            raise _Ended
        now_ms = ports.clock.monotonic_ms()
        if self._assigned_ms is None or (
            partition.directory_of(ports.broker_id) != self._target_id
            and now_ms - self._assigned_ms >= ASSIGN_AGAIN_MS
        ):
            ports.assignments.assign(self._topic_id, self._index, self._target_id)
            self._assigned_ms = now_ms
        return partition.directory_of(ports.broker_id) == self._target_id

    # -- the replacement

    async def _replace(self) -> None:
        """Let the log use the copy, unless too much is appended or changed meanwhile."""
        ports, move = self._ports, self.move
        await ports.flusher.pause(move.log)
        try:
            if not move.future.is_almost_complete or not await self._make_durable():
                return
            for _ in range(CATCH_UP_STEPS_MAX):
                self._require_possible()
                if not self._is_assigned() or not move.future.is_durable:
                    return
                if move.future.can_replace:
                    move.replace()
                    self.is_replaced = True
                    return
                step = await self._next_step()
                if step is not None and not await self._run(step):
                    return
        except (OSError, StorageFailure) as error:
            await self._on_failed(move.target, error)
        finally:
            if not self.is_replaced:
                move.forget_checkpoints()
            ports.flusher.resume(move.log)

    async def _make_durable(self) -> bool:
        move = self.move
        if move.log.failure is not None or not await self._run(move.future.planned_checkpoint()):
            return False
        for write in move.planned_checkpoints():
            await self._in_thread(write)
        return True

    async def _remove_old_files(self) -> None:
        """Remove the old files when the copy and its name are durable."""
        ports, move = self._ports, self.move
        with suppress(KafkaError):  # The directory goes offline then.
            await ports.flusher.flush(move.log)
        ports.assignments.complete(self._topic_id, self._index)
        retirement = move.planned_retirement(ports.clock.wall_ms())
        try:
            await self._in_thread(retirement.run)
        except (OSError, StorageFailure) as error:
            ports.directories.operation_failed(move.source, error)
        else:
            move.on_retired(retirement)
        logger.info("%s is now in %s", move.topic_partition, move.target.path)

    # -- the end without a replacement

    async def _end(self) -> None:
        move, assignments = self.move, self._ports.assignments
        move.hide()
        if self._assigned_ms is not None:
            assignments.withdraw(self._topic_id, self._index, self._source_id)
        if self._is_stopped or move.source.offline_reason is not None:
            # The next start continues with the copy, or an operator needs it.
            move.future.close()
            return
        if move.target.offline_reason is not None:
            return
        logger.info("The move of %s to %s is cancelled", move.topic_partition, move.target.path)
        try:
            await self._in_thread(move.planned_removal())
        except (OSError, StorageFailure) as error:
            self._ports.directories.operation_failed(move.target, error)
