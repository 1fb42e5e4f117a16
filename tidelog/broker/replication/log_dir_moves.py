"""Moves replicas of this node between its log directories, as AlterReplicaLogDirs requests (KIP-113).

Up to num.replica.alter.log.dirs.threads replicas are copied at a time, in the order of the requests. Kafka
copies all at once. A replica that waits is described as a future one that is still empty.

A move that is interrupted by the end of the node begins again at its next start.

Bounds: one move for each replica of this node. I/O: see `tidelog.broker.replication.log_dir_move`.
Source: ReplicaManager.alterReplicaLogDirs of Apache Kafka 4.3; KIP-113, KIP-858, KIP-1066.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import UUID

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.log_dir_move import MovePorts, ReplicaMove
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.directories.log_move import LogMove, remove_interrupted_copy
from tidelog.storage.directories.partition_directory import NAME_BYTES_MAX, future_name_bytes

logger = logging.getLogger(__name__)

MOVES_MAX: Final = 32
"""The maximum number of moves at a time."""


class LogDirMoves:
    """All moves of a node; `new_id` names the directories of copies."""

    def __init__(
        self, ports: MovePorts, replicas: ReplicaManager, thread_count: int, new_id: Callable[[], UUID]
    ) -> None:
        self._ports = ports
        self._replicas = replicas
        self._logs: LogManager = replicas.logs
        self._workers_max = max(1, min(thread_count, MOVES_MAX))
        self._new_id = new_id
        self._moves: dict[TopicPartition, ReplicaMove] = {}
        """The latest move of each replica, until it has ended."""
        self._waiting: deque[tuple[ReplicaMove, ReplicaMove | None]] = deque()
        """Moves in order, each with an earlier one of the same replica that must have ended."""
        self._workers: set[asyncio.Task[None]] = set()
        self._running: dict[ReplicaMove, None] = {}
        self._is_closed = False

    # -- requests

    def alter(self, topic_partition: TopicPartition, path: str) -> None:
        """Move a replica to the log directory `path`; create a replica that is not here yet there.

        A move to another directory is cancelled.
        Errors: KafkaError INVALID_TOPIC_EXCEPTION, LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
        INVALID_REPLICA_ASSIGNMENT, REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION.
        """
        if future_name_bytes(topic_partition) > NAME_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        target = self._usable_directory(path)
        current = self._moves.get(topic_partition)
        if current is not None and current.target is not target and not current.is_replaced:
            current.cancel()
            del self._moves[topic_partition]
        if self._logs.get(topic_partition) is None:
            self._logs.prefer(topic_partition, target.path)
        try:
            partition = self._replicas.partition(topic_partition)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                # AlterReplicaLogDirs has always had this error code.
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, str(error)) from error
            raise
        self._move(partition, target)

    def _usable_directory(self, path: str) -> LogDirectory:
        for directory in self._logs.directories:
            if directory.path == path:
                break
        else:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        if directory.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        if path in self._logs.cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
        return directory

    def _move(self, partition: Partition, target: LogDirectory) -> None:
        """Begin a move, unless the replica is in `target` or on its way there."""
        key = partition.topic_partition
        source = next((each for each in self._logs.directories if each.logs.get(key) is partition.log), None)
        current = self._moves.get(key)
        if source is target or (current is not None and current.target is target):
            return
        offline = [each.path for each in self._logs.directories if each.offline_reason is not None]
        if source is None or offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Cannot move {key}, because log directories {', '.join(offline)} are offline",
            )
        move = ReplicaMove(self._ports, partition, LogMove(partition.log, source, target, self._new_id))
        move.move.begin()
        earlier = next((each for each in self._unfinished if each.move.topic_partition == key), None)
        self._moves[key] = move
        self._waiting.append((move, earlier))
        if len(self._workers) < self._workers_max and not self._is_closed:
            worker = asyncio.get_running_loop().create_task(self._work(), name="log-dir-moves")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    @property
    def _unfinished(self) -> list[ReplicaMove]:
        """The moves that may still change files, the latest first."""
        return [*(move for move, _ in reversed(self._waiting)), *self._running]

    async def _work(self) -> None:
        while self._waiting and not self._is_closed:
            move, earlier = self._waiting.popleft()
            self._running[move] = None
            try:
                if earlier is not None:
                    await earlier.done.wait()
                await move.run()
            except Exception:
                logger.exception("Cannot move %s to %s", move.move.topic_partition, move.target.path)
                move.move.hide()
            finally:
                move.done.set()
                self._running.pop(move, None)
                if self._moves.get(move.move.topic_partition) is move:
                    del self._moves[move.move.topic_partition]

    # -- start and end

    def start(self) -> None:
        """Begin the moves again that the end of the node has interrupted."""
        for directory in self._logs.directories.online:
            for topic_partition in list(directory.moves.interrupted):
                partition = self._replicas.partitions.get(topic_partition)
                if partition is None or topic_partition in self._moves:
                    logger.warning(
                        "%s is ignored: %s is not on this node or is moved to another directory",
                        directory.moves.interrupted[topic_partition],
                        topic_partition,
                    )
                elif topic_partition in directory.logs:
                    self._ports.executor.submit(remove_interrupted_copy, directory, topic_partition)
                else:
                    try:
                        self._move(partition, directory)
                    except KafkaError as error:
                        logger.warning("The move of %s is not continued: %s", topic_partition, error)

    async def close(self) -> None:
        """End all moves after their current steps."""
        self._is_closed = True
        for move in self._unfinished:
            move.stop()
        if self._workers:
            await asyncio.wait(self._workers)
