"""One replica fetcher (shell): a task that copies partitions from one broker over one connection.

The state machine (`tidelog.cluster.replication.follower_fetcher`) decides which requests to send and how to
act on responses. The fetcher sends, appends and waits. One request is in flight at a time. After an error it
waits at most replica.fetch.backoff.ms, and connects again to the broker's current address in the metadata. A
separate task reads what a partition needs from remote storage, so that copying of the other partitions
continues (KAFKA-16105).

I/O: the connection, and the logs through `follower_log`. Errors: none leave the task; an error of any kind is
logged, and the next round starts after the back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar
from uuid import UUID

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.broker.replication.follower_log import apply_action
from tidelog.broker.replication.remote_tier import FollowerTier
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher
from tidelog.cluster.replication.follower_state import (
    Action,
    Append,
    FetchAuxiliary,
    LogAction,
    PartitionDelayed,
    PartitionFailed,
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

_BYTES_PER_TURN: Final = 1 << 20
"""After this many appended bytes, other callbacks of the event loop run."""
_FIRST_BACKOFF_MS: Final = 20
_NAMES_MAX: Final = 3
_QUERIES_PER_ROUND: Final = 8
"""A restart from remote storage takes several queries in a row; no Fetch may wait between them."""


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """The ports of a fetcher to the node.

    `connect` opens a connection to a broker. `broker_epoch` returns the epoch of our registration. `tier` is
    None without remote storage. `flush` makes the current content of a log durable.
    """

    connect: Callable[[BrokerId], Awaitable[BrokerConnection]]
    broker_epoch: Callable[[], int]
    on_high_watermark_advanced: Callable[[TopicPartition], None]
    clock: Clock
    quota: ReplicationQuota
    backoff_ms: int
    tier: FollowerTier | None = None
    flush: Callable[[PartitionLog], Awaitable[None]] | None = None


class ReplicaFetcher:
    """A task that copies partitions from the broker `leader_id`."""

    def __init__(self, leader_id: BrokerId, index: int, core: FollowerFetcher, ports: FetcherPorts) -> None:
        self.leader_id = leader_id
        self.index = index
        self.core = core
        self.bytes_in = 0
        self.requests = 0
        self.remote_restarts = 0
        """The number of logs that were restarted from remote storage."""
        self.remote_restart_errors = 0
        """The number of failed attempts to restart a log from remote storage."""
        self._ports = ports
        self._backoff = ExponentialBackoff(min(_FIRST_BACKOFF_MS, ports.backoff_ms), ports.backoff_ms)
        self._connection: BrokerConnection | None = None
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        """The number of consecutive failed rounds."""
        self._reported_errors: dict[TopicPartition, ErrorCode] = {}
        self._last_error = ""
        self._auxiliary_tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def __str__(self) -> str:
        return f"fetcher {self.index} from broker {self.leader_id}"

    # -- calls of the manager

    def start(self) -> None:
        """Start the task."""
        if self._task is None:
            name = f"replica-fetcher-{self.index}-{self.leader_id}"
            self._task = asyncio.create_task(self._run(), name=name)

    def add(
        self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: LeaderEpoch, log: PartitionLog
    ) -> None:
        """Start to copy a partition in this leader epoch."""
        self._reported_errors.pop(topic_partition, None)
        existing = self.core.partitions.get(topic_partition)
        if existing is None or existing.leader_epoch != leader_epoch or existing.topic_id != topic_id:
            self._cancel_auxiliary(topic_partition)
        for action in self.core.add(topic_partition, topic_id, leader_epoch, log):
            self._perform(action)
        self._wake_event.set()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop copying a partition; records of a response in flight are not appended to it."""
        self._reported_errors.pop(topic_partition, None)
        self._cancel_auxiliary(topic_partition)
        self.core.remove(topic_partition)

    @property
    def is_idle(self) -> bool:
        """Whether no partition is copied, and none has failed and waits for new metadata."""
        return not self.core.partitions and not self.core.failed

    async def close(self) -> None:
        """Cancel the tasks and close the connection."""
        tasks = (
            [*self._auxiliary_tasks.values()]
            if self._task is None
            else [self._task, *self._auxiliary_tasks.values()]
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._disconnect()

    # -- the task

    async def _run(self) -> None:
        while True:
            self._wake_event.clear()
            try:
                has_sent = await self._round()
                self._on_success()
                if has_sent:
                    continue
            except (KafkaError, OSError, TimeoutError) as error:
                self._log_error(str(error) or type(error).__name__)
                await self._back_off()
            except Exception:
                logger.exception("Error in %s; retrying", self)
                await self._back_off()
            else:
                await self._wait_for_work()

    def _log_error(self, text: str) -> None:
        """Log an error of the connection; the same one again only at level DEBUG, as for a lost node."""
        level = logging.DEBUG if text == self._last_error else logging.INFO
        logger.log(level, "Error in %s: %s; retrying", self, text)
        self._last_error = text

    def _on_success(self) -> None:
        if self._failures > 1:
            logger.info("%s continues after %d failed attempts", str(self).capitalize(), self._failures)
        self._failures = 0
        self._last_error = ""

    async def _back_off(self) -> None:
        """Disconnect and wait; the delay doubles with each consecutive failure."""
        self._disconnect()
        delay_ms = self._backoff.base_delay_ms(self._failures)
        self._failures += 1
        await asyncio.sleep(delay_ms / 1000)

    async def _wait_for_work(self) -> None:
        """Wait for partitions, or until the delay of one has passed."""
        now_ms = self._ports.clock.monotonic_ms()
        ready_ms = self.core.next_ready_ms(now_ms)
        delay_s = None if ready_ms is None else max(ready_ms - now_ms, 1) / 1000
        try:
            async with asyncio.timeout(delay_s):
                await self._wake_event.wait()
        except TimeoutError:
            return

    async def _round(self) -> bool:
        """Send the requests of the state machine; return whether there were any."""
        if not self.core.partitions:
            return False
        connection = await self._ensure_connected()
        has_sent = False
        for _ in range(_QUERIES_PER_ROUND):
            has_queried = await self._query_epochs(connection)
            has_queried = await self._query_offsets(connection) or has_queried
            if not has_queried:
                break
            has_sent = True
        return await self._fetch(connection) or has_sent

    async def _ensure_connected(self) -> BrokerConnection:
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = self._connection = await self._ports.connect(self.leader_id)
            self.core.on_connected(connection.version_of(ApiKey.FETCH))
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _query_epochs(self, connection: BrokerConnection) -> bool:
        request = self.core.build_epoch_request(self._now_ms())
        if request is None:
            return False
        response = await self._query(connection, request, OffsetForLeaderEpochResponse)
        await self._perform_all(self.core.on_epochs(response, self._now_ms()))
        return True

    async def _query_offsets(self, connection: BrokerConnection) -> bool:
        request = self.core.build_offsets_request(self._now_ms())
        if request is None:
            return False
        response = await self._query(connection, request, ListOffsetsResponse)
        await self._perform_all(self.core.on_offsets(response, self._now_ms()))
        return True

    async def _query(
        self, connection: BrokerConnection, request: ApiMessage, response_type: type[ResponseT]
    ) -> ResponseT:
        try:
            return await connection.request(request, response_type)
        except (KafkaError, OSError):
            self.core.on_query_failed(self._now_ms())
            raise

    async def _fetch(self, connection: BrokerConnection) -> bool:
        request = self.core.build_fetch(self._now_ms(), self._ports.broker_epoch())
        if request is None:
            return False
        self.requests += 1
        try:
            response = await connection.request(request, FetchResponse)
        except (KafkaError, OSError):
            self.core.on_fetch_failed(self._now_ms())
            raise
        await self._perform_all(self.core.on_fetch(response, self._now_ms()))
        return True

    # -- actions

    async def _perform_all(self, actions: list[Action]) -> None:
        self._report_errors(actions)
        size_bytes = 0
        for action in actions:
            if size_bytes > _BYTES_PER_TURN:
                size_bytes = 0
                await asyncio.sleep(0)
            self._perform(action)
            if isinstance(action, Append):
                size_bytes += len(action.records)
            elif not isinstance(action, PartitionDelayed | PartitionFailed | FetchAuxiliary):
                # It calls fsync. A failover may cause a thousand of them, and heartbeats must be sent.
                size_bytes += _BYTES_PER_TURN + 1
        await self._flush_if_required(actions)

    async def _flush_if_required(self, actions: list[Action]) -> None:
        """Flush the logs that flush.messages requires before the next Fetch reports their end to the leader.

        If the disk fails, its directory goes offline and its partitions are removed from this fetcher.
        """
        flush = self._ports.flush
        if flush is None:
            return
        flushes = [
            asyncio.ensure_future(flush(log))
            for action in actions
            if isinstance(action, Append) and isinstance(log := action.partition.log, PartitionLog)
            if self.core.is_current(action.partition) and log.durability.must_flush
        ]
        if flushes:
            # Other tasks may wait for the same flush: it continues if this task is cancelled.
            await asyncio.gather(*(asyncio.shield(each) for each in flushes), return_exceptions=True)

    def _perform(self, action: Action) -> None:
        """Perform one action, unless the partition has another leader or role by now."""
        if isinstance(action, PartitionDelayed | PartitionFailed):
            return
        # Since the previous action, the partition may have changed its leader or become leader itself.
        partition = action.partition
        if not self.core.is_current(partition):
            return
        if isinstance(action, FetchAuxiliary):
            self._start_auxiliary(action)
            return
        log = partition.log
        assert isinstance(log, PartitionLog)
        try:
            has_advanced = apply_action(action, log, self._ports.clock.wall_ms())
        except KafkaError as error:
            if self._reported_errors.get(partition.topic_partition) is not error.code:
                logger.error("Error in %s: %s", self, error)
            self._on_action_failed(action, error)
            return
        except Exception as error:
            # An error in one partition must not prevent the others from being copied.
            logger.exception("Error in %s for partition %s", self, partition.topic_partition)
            self._on_action_failed(action, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
            return
        self.core.on_action_performed(action)
        self._reported_errors.pop(partition.topic_partition, None)
        if isinstance(action, RestartFromRemote):
            self.remote_restarts += 1
        if isinstance(action, Append):
            self.bytes_in += len(action.records)
            self._ports.quota.record(partition.topic_partition, len(action.records), self._now_ms())
        if has_advanced:
            self._ports.on_high_watermark_advanced(partition.topic_partition)

    # -- remote storage

    def _start_auxiliary(self, action: FetchAuxiliary) -> None:
        topic_partition = action.partition.topic_partition
        self._cancel_auxiliary(topic_partition)
        task = asyncio.create_task(self._fetch_auxiliary(action), name=f"remote-log-aux-{topic_partition}")
        self._auxiliary_tasks[topic_partition] = task

        def on_ended(_: asyncio.Task[None]) -> None:
            if self._auxiliary_tasks.get(topic_partition) is task:
                del self._auxiliary_tasks[topic_partition]

        task.add_done_callback(on_ended)

    def _cancel_auxiliary(self, topic_partition: TopicPartition) -> None:
        """Cancel the read of an earlier attempt."""
        task = self._auxiliary_tasks.pop(topic_partition, None)
        if task is not None:
            task.cancel()

    async def _fetch_auxiliary(self, action: FetchAuxiliary) -> None:
        tier, segment = self._ports.tier, action.segment
        assert tier is not None and isinstance(segment, RemoteLogSegmentMetadata)
        try:
            epochs, producers = await tier.reader.fetch_auxiliary(segment)
        except Exception as error:
            # Remote storage may fail for hours, with any kind of error: the partition waits.
            reason = f"cannot read {segment.remote_log_segment_id}: {error!r}"
            next_action: Action | None = self.core.on_auxiliary_failed(action, reason, self._now_ms())
        else:
            next_action = self.core.on_auxiliary_fetched(action, epochs, producers, self._now_ms())
        if next_action is not None:
            self._report_errors([next_action])
            self._perform(next_action)
        self._wake_event.set()

    def _on_action_failed(self, action: LogAction, error: KafkaError) -> None:
        outcome = self.core.on_action_failed(action, error, self._now_ms())
        if outcome is not None:
            self._report_errors([outcome])

    def _report_errors(self, actions: Iterable[Action]) -> None:
        """Log why partitions are not copied: one line for all partitions with the same reason.

        When a node stops, all of its partitions get new leaders at the same time. An error is repeated only
        when it changes.
        """
        groups: dict[tuple[type[Action], ErrorCode, str], list[TopicPartition]] = {}
        for action in actions:
            if isinstance(action, PartitionDelayed | PartitionFailed) and self._is_new(action):
                key = (type(action), action.code, action.reason)
                groups.setdefault(key, []).append(action.partition.topic_partition)
        for (kind, code, reason), partitions in groups.items():
            count = count_text(len(partitions), "partition")
            names = ", ".join(map(str, partitions[:_NAMES_MAX])) + ", ..." * (len(partitions) > _NAMES_MAX)
            if kind is PartitionFailed:
                # A leader of a newer epoch is normal: it is elected before this node has the metadata.
                level = logging.INFO if code is ErrorCode.FENCED_LEADER_EPOCH else logging.WARNING
                text = "%s has failed for %s (%s): %s; not fetched until the metadata changes"
                logger.log(level, text, str(self).capitalize(), count, names, reason)
            else:
                cause = f"{code.name}: {reason}" if reason else code.name
                logger.info("Error in %s for %s (%s): %s; retrying", self, count, names, cause)

    def _is_new(self, action: PartitionDelayed | PartitionFailed) -> bool:
        """Count a failed restart from remote storage; return whether the error has not been logged yet."""
        topic_partition = action.partition.topic_partition
        if action.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self.remote_restart_errors += 1
        if isinstance(action, PartitionFailed):
            return True
        is_new = self._reported_errors.get(topic_partition) is not action.code
        self._reported_errors[topic_partition] = action.code
        return is_new

    def _now_ms(self) -> int:
        return self._ports.clock.monotonic_ms()
