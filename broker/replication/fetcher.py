"""One replica fetcher (shell): a task that copies partitions from one broker over one connection.

The state machine (`cluster.replication.follower_fetcher`) says what to ask and what to do; this sends,
appends, and waits. One request is under way at a time. A connection that fails is opened anew after a
while, at most replica.fetch.backoff.ms, at the address that the metadata names then.

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

from broker.clock import Clock
from broker.replication.follower_log import perform
from clients.connection import BrokerConnection
from cluster.replication.follower_fetcher import FollowerFetcher
from cluster.replication.follower_state import Action, Append, Delayed, Failed, RestartAt, Truncate
from cluster.replication.throttle import ReplicationQuota
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from protocol.messages.fetch import FetchResponse
from protocol.messages.list_offsets import ListOffsetsResponse
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from protocol.registry import ApiKey
from protocol.schema import ApiMessage
from storage.log import PartitionLog

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

# After so many bytes others get their turn on the loop.
_BYTES_PER_TURN: Final = 1 << 20
_FIRST_BACKOFF_MS: Final = 20


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """What a fetcher needs of the node.

    `connect` opens a connection to the broker it copies from; `broker_epoch` is our registration's;
    `progressed` hears of partitions of which readers see more.
    """

    connect: Callable[[BrokerId], Awaitable[BrokerConnection]]
    broker_epoch: Callable[[], int]
    progressed: Callable[[TopicPartition], None]
    clock: Clock
    quota: ReplicationQuota
    backoff_ms: int


class ReplicaFetcher:
    """Copies the partitions that were added from `leader_id`; `close` ends it."""

    def __init__(self, leader_id: BrokerId, index: int, core: FollowerFetcher, ports: FetcherPorts) -> None:
        self.leader_id = leader_id
        self.index = index
        self.core = core
        self.bytes_in = 0
        self.requests = 0
        self._ports = ports
        self._connection: BrokerConnection | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        """Rounds in a row that failed."""
        self._complained: dict[TopicPartition, ErrorCode] = {}

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
        for action in self.core.add(topic_partition, topic_id, leader_epoch, log):
            self._perform(action)
        self._woken.set()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Copy a partition no more; nothing of an answer under way is appended to it."""
        self._complained.pop(topic_partition, None)
        self.core.remove(topic_partition)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is copied and nothing waits for its metadata."""
        return not self.core.partitions and not self.core.failed

    async def close(self) -> None:
        """End the task and the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
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
        asked = await self._ask_epochs(connection)
        asked = await self._ask_offsets(connection) or asked
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
            elif isinstance(action, Truncate | RestartAt):
                # It syncs. After a failover there may be a thousand of them, and heartbeats must go out.
                size_bytes += _BYTES_PER_TURN + 1

    def _perform(self, action: Action) -> None:
        if isinstance(action, Delayed | Failed):
            self._complain(action)
            return
        # While others had their turn the partition may have got another leader, or become one.
        partition = action.partition
        if not self.core.is_current(partition):
            return
        log = partition.log
        assert isinstance(log, PartitionLog)
        try:
            moved = perform(action, log, self._ports.clock.wall_ms())
        except KafkaError as error:
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
        if isinstance(action, Append):
            self.bytes_in += len(action.records)
            self._ports.quota.record(partition.topic_partition, len(action.records), self._now_ms())
        if moved:
            self._ports.progressed(partition.topic_partition)

    def _refused(self, action: Append | Truncate | RestartAt, error: KafkaError) -> None:
        refused = self.core.action_failed(action, error, self._now_ms())
        if refused is not None:
            self._complain(refused)

    def _complain(self, action: Delayed | Failed) -> None:
        """Say what is wrong with a partition, once until that changes."""
        topic_partition = action.partition.topic_partition
        if isinstance(action, Failed):
            logger.warning("%s: %s is given up: %s", self, topic_partition, action.reason)
        elif self._complained.get(topic_partition) is not action.code:
            self._complained[topic_partition] = action.code
            logger.info("%s: %s waits after %s", self, topic_partition, action.code.name)

    def _now_ms(self) -> int:
        return self._ports.clock.monotonic_ms()
