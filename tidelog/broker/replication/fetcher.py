"""One replica fetcher (shell): a task that copies partitions from one broker over one connection.

The state machine (`tidelog.cluster.replication.follower_fetcher`) says what to ask and what to do; this
sends,
appends, and waits. One request is under way at a time. A connection that fails is opened anew after a
while, at most replica.fetch.backoff.ms, at the address that the metadata names then. What a partition needs
of the remote tier is read by a task of its own, so that the others are copied meanwhile (KAFKA-16105).

I/O: the connection, and the logs through `follower_log`. Errors: none leave the task; a fault of our own
is logged, and the round begins again after the back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.replication.follower_log import perform
from tidelog.broker.replication.remote_tier import FollowersTier
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher
from tidelog.cluster.replication.follower_state import (
    Action,
    Append,
    Delayed,
    Failed,
    FetchAuxiliary,
    LogAction,
    RestartFromRemote,
)
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.protocol.messages.fetch import FetchResponse
from tidelog.protocol.messages.list_offsets import ListOffsetsResponse
from tidelog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

# After so many bytes others get their turn on the loop.
_BYTES_PER_TURN: Final = 1 << 20
_FIRST_BACKOFF_MS: Final = 20
# Beginning anew from the tier takes a few questions in a row, between which no Fetch shall wait for records.
_QUESTIONS_IN_A_ROW: Final = 8


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """What a fetcher needs of the node.

    `connect` opens a connection to the broker it copies from; `broker_epoch` is our registration's;
    `progressed` hears of partitions of which readers see more; `tier` is None without remote storage.
    `flush` makes what is in a log now durable.
    """

    connect: Callable[[BrokerId], Awaitable[BrokerConnection]]
    broker_epoch: Callable[[], int]
    progressed: Callable[[TopicPartition], None]
    clock: Clock
    quota: ReplicationQuota
    backoff_ms: int
    tier: FollowersTier | None = None
    flush: Callable[[PartitionLog], Awaitable[None]] | None = None


class ReplicaFetcher:
    """Copies the partitions that were added from `leader_id`; `close` ends it."""

    def __init__(self, leader_id: BrokerId, index: int, core: FollowerFetcher, ports: FetcherPorts) -> None:
        self.leader_id = leader_id
        self.index = index
        self.core = core
        self.bytes_in = 0
        self.requests = 0
        self.remote_restarts = 0
        """How often a log has begun anew behind what is in the tier."""
        self.remote_restart_errors = 0
        """How often that could not be done yet."""
        self._ports = ports
        self._connection: BrokerConnection | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        """Rounds in a row that failed."""
        self._complained: dict[TopicPartition, ErrorCode] = {}
        self._auxiliary: dict[TopicPartition, asyncio.Task[None]] = {}

    def __str__(self) -> str:
        return f"fetcher {self.index} from broker {self.leader_id}"

    # -- what the manager does

    def start(self) -> None:
        """Begin to fetch."""
        if self._task is None:
            name = f"replica-fetcher-{self.index}-{self.leader_id}"
            self._task = asyncio.create_task(self._run(), name=name)

    def add(
        self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: LeaderEpoch, log: PartitionLog
    ) -> None:
        """Copy a partition in this leader epoch."""
        self._complained.pop(topic_partition, None)
        known = self.core.partitions.get(topic_partition)
        if known is None or known.leader_epoch != leader_epoch or known.topic_id != topic_id:
            self._forget_auxiliary(topic_partition)
        for action in self.core.add(topic_partition, topic_id, leader_epoch, log):
            self._perform(action)
        self._woken.set()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Copy a partition no more; nothing of an answer under way is appended to it."""
        self._complained.pop(topic_partition, None)
        self._forget_auxiliary(topic_partition)
        self.core.remove(topic_partition)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is copied and nothing waits for its metadata."""
        return not self.core.partitions and not self.core.failed

    async def close(self) -> None:
        """End the tasks and the connection."""
        tasks = [*self._auxiliary.values()] if self._task is None else [self._task, *self._auxiliary.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._disconnect()

    # -- the task

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                asked = await self._round()
                self._failures = 0
                if asked:
                    continue
            except (KafkaError, OSError, TimeoutError) as error:
                logger.info("%s: %s", self, str(error) or type(error).__name__)
                await self._back_off()
            except Exception:
                logger.exception("%s failed", self)
                await self._back_off()
            else:
                await self._until_due()

    async def _back_off(self) -> None:
        """Leave the leader alone for a while, the longer the more often it failed."""
        self._disconnect()
        delay_ms = min(_FIRST_BACKOFF_MS << min(self._failures, 16), self._ports.backoff_ms)
        self._failures += 1
        await asyncio.sleep(delay_ms / 1000)

    async def _until_due(self) -> None:
        """Wait for partitions, or for the end of a delay."""
        now_ms = self._ports.clock.monotonic_ms()
        due_ms = self.core.next_due_ms(now_ms)
        delay_s = None if due_ms is None else max(due_ms - now_ms, 1) / 1000
        try:
            async with asyncio.timeout(delay_s):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _round(self) -> bool:
        """Ask whatever there is to ask, once each; False when there was nothing."""
        if not self.core.partitions:
            return False
        connection = await self._connected()
        asked = False
        for _ in range(_QUESTIONS_IN_A_ROW):
            has_asked = await self._ask_epochs(connection)
            has_asked = await self._ask_offsets(connection) or has_asked
            if not has_asked:
                break
            asked = True
        return await self._fetch(connection) or asked

    async def _connected(self) -> BrokerConnection:
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = self._connection = await self._ports.connect(self.leader_id)
            self.core.connected(connection.version_of(ApiKey.FETCH))
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _ask_epochs(self, connection: BrokerConnection) -> bool:
        request = self.core.build_epoch_request(self._now_ms())
        if request is None:
            return False
        answer = await self._question(connection, request, OffsetForLeaderEpochResponse)
        await self._perform_all(self.core.on_epochs(answer, self._now_ms()))
        return True

    async def _ask_offsets(self, connection: BrokerConnection) -> bool:
        request = self.core.build_offsets_request(self._now_ms())
        if request is None:
            return False
        answer = await self._question(connection, request, ListOffsetsResponse)
        await self._perform_all(self.core.on_offsets(answer, self._now_ms()))
        return True

    async def _question(
        self, connection: BrokerConnection, request: ApiMessage, response: type[ResponseT]
    ) -> ResponseT:
        try:
            return await connection.request(request, response)
        except (KafkaError, OSError):
            self.core.on_question_lost(self._now_ms())
            raise

    async def _fetch(self, connection: BrokerConnection) -> bool:
        request = self.core.build_fetch(self._now_ms(), self._ports.broker_epoch())
        if request is None:
            return False
        self.requests += 1
        try:
            answer = await connection.request(request, FetchResponse)
        except (KafkaError, OSError):
            self.core.on_fetch_lost(self._now_ms())
            raise
        await self._perform_all(self.core.on_fetch(answer, self._now_ms()))
        return True

    # -- what the answers ask for

    async def _perform_all(self, actions: list[Action]) -> None:
        size_bytes = 0
        for action in actions:
            if size_bytes > _BYTES_PER_TURN:
                size_bytes = 0
                await asyncio.sleep(0)
            self._perform(action)
            if isinstance(action, Append):
                size_bytes += len(action.records)
            elif not isinstance(action, Delayed | Failed | FetchAuxiliary):
                # It syncs. After a failover there may be a thousand of them, and heartbeats must go out.
                size_bytes += _BYTES_PER_TURN + 1
        await self._flush_if_asked(actions)

    async def _flush_if_asked(self, actions: list[Action]) -> None:
        """Wait for the disk where flush.messages asks for it: the next Fetch tells the leader what we have.

        A disk that fails goes offline, and its partitions are removed from here.
        """
        flush = self._ports.flush
        if flush is None:
            return
        due = [
            asyncio.ensure_future(flush(log))
            for action in actions
            if isinstance(action, Append) and isinstance(log := action.partition.log, PartitionLog)
            if self.core.is_current(action.partition) and log.must_flush
        ]
        if due:
            # Others may wait for the same flush: it goes on if we are closed.
            await asyncio.gather(*(asyncio.shield(each) for each in due), return_exceptions=True)

    def _perform(self, action: Action) -> None:
        if isinstance(action, Delayed | Failed):
            self._complain(action)
            return
        # While others had their turn the partition may have got another leader, or become one.
        partition = action.partition
        if not self.core.is_current(partition):
            return
        if isinstance(action, FetchAuxiliary):
            self._begin_auxiliary(action)
            return
        log = partition.log
        assert isinstance(log, PartitionLog)
        try:
            moved = perform(action, log, self._ports.clock.wall_ms())
        except KafkaError as error:
            if self._complained.get(partition.topic_partition) is not error.code:
                logger.error("%s: %s", self, error)
            self._refused(action, error)
            return
        except Exception as error:
            # A fault of our own in one partition must not keep the others from being copied.
            logger.exception("%s: %s", self, partition.topic_partition)
            self._refused(action, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
            return
        self.core.performed(action)
        self._complained.pop(partition.topic_partition, None)
        if isinstance(action, RestartFromRemote):
            self.remote_restarts += 1
        if isinstance(action, Append):
            self.bytes_in += len(action.records)
            self._ports.quota.record(partition.topic_partition, len(action.records), self._now_ms())
        if moved:
            self._ports.progressed(partition.topic_partition)

    # -- the remote tier

    def _begin_auxiliary(self, action: FetchAuxiliary) -> None:
        topic_partition = action.partition.topic_partition
        self._forget_auxiliary(topic_partition)
        task = asyncio.create_task(self._fetch_auxiliary(action), name=f"remote-log-aux-{topic_partition}")
        self._auxiliary[topic_partition] = task

        def ended(_: asyncio.Task[None]) -> None:
            if self._auxiliary.get(topic_partition) is task:
                del self._auxiliary[topic_partition]

        task.add_done_callback(ended)

    def _forget_auxiliary(self, topic_partition: TopicPartition) -> None:
        """What is on its way from the tier for an earlier attempt is not needed any more."""
        task = self._auxiliary.pop(topic_partition, None)
        if task is not None:
            task.cancel()

    async def _fetch_auxiliary(self, action: FetchAuxiliary) -> None:
        tier, segment = self._ports.tier, action.segment
        assert tier is not None and isinstance(segment, RemoteLogSegmentMetadata)
        try:
            epochs, producers = await tier.reader.fetch_auxiliary(segment)
        except Exception as error:
            # The tier may be gone for hours, in as many ways as there are stores: the partition waits.
            reason = f"{segment.remote_log_segment_id} cannot be read: {error!r}"
            answer: Action | None = self.core.auxiliary_failed(action, reason, self._now_ms())
        else:
            answer = self.core.auxiliary_fetched(action, epochs, producers, self._now_ms())
        if answer is not None:
            self._perform(answer)
        self._woken.set()

    def _refused(self, action: LogAction, error: KafkaError) -> None:
        refused = self.core.action_failed(action, error, self._now_ms())
        if refused is not None:
            self._complain(refused)

    def _complain(self, action: Delayed | Failed) -> None:
        """Say what is wrong with a partition, once until that changes."""
        topic_partition = action.partition.topic_partition
        if action.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self.remote_restart_errors += 1
        if isinstance(action, Failed):
            logger.warning("%s: %s is given up: %s", self, topic_partition, action.reason)
        elif self._complained.get(topic_partition) is not action.code:
            self._complained[topic_partition] = action.code
            reason = f": {action.reason}" if action.reason else ""
            logger.info("%s: %s waits after %s%s", self, topic_partition, action.code.name, reason)

    def _now_ms(self) -> int:
        return self._ports.clock.monotonic_ms()
