"""The partitions of one internal topic that this node leads, each with its coordinator.

`on_leadership` loads a partition, `on_resignation` unloads it. Requests for a key of a partition that is
being loaded get COORDINATOR_LOAD_IN_PROGRESS; requests for a partition of another leader get NOT_COORDINATOR.
A reply that depends on the log is sent when its records, and all earlier ones of the partition, are
committed. After the commit timeout it is COORDINATOR_NOT_AVAILABLE; the records may still be committed later,
and are then applied.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

from tidelog.broker.coordinators.shared.append_batch import CompletionCallback
from tidelog.broker.coordinators.shared.append_linger import NO_LINGER, AppendTimes
from tidelog.broker.coordinators.shared.coordinator import CoordinatorT, RecordFormat
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes, error_of_append
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.coordinators.shared.shard import Shard, ShardPorts, ShardState
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)

R = TypeVar("R")

LOADS_AT_ONCE_MAX: Final = 4
"""The number of partitions whose logs are read at a time."""


class Shards(Generic[CoordinatorT]):
    """The shards of one internal topic.

    `name` is the kind of coordinator, for log lines. `create_coordinator` creates the coordinator of a
    partition.
    """

    def __init__(
        self,
        name: str,
        create_coordinator: Callable[[int], CoordinatorT],
        record_format: RecordFormat[CoordinatorT],
        ports: ShardPorts,
        *,
        commit_timeout_ms: int,
        append_linger_ms: int = NO_LINGER,
    ) -> None:
        self._name = name
        self._create_coordinator = create_coordinator
        self._record_format = record_format
        self._ports = ports
        self._log = ports.log
        self._commit_timeout_ms = commit_timeout_ms
        self._append_times = AppendTimes(append_linger_ms, commit_timeout_ms)
        self._shards: dict[int, Shard[CoordinatorT]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._load_permits = asyncio.Semaphore(LOADS_AT_ONCE_MAX)
        self._is_running = False
        self._has_stopped = False

    # Start and stop

    def start(self) -> None:
        """Serve requests from now on."""
        assert not self._is_running
        self._is_running = True

    async def stop(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR and end all tasks."""
        self._is_running = False
        self._has_stopped = True
        for partition in list(self._shards):
            self.on_resignation(partition)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_leadership(self, partition: int) -> None:
        """Load `partition`, of which this node has become the leader.

        A partition that is already served is unchanged. One that could not be loaded is loaded again.
        """
        existing = self._shards.get(partition)
        if self._has_stopped or (existing is not None and existing.state is not ShardState.FAILED):
            return
        coordinator = self._create_coordinator(partition)
        name = f"partition {partition} of {self._name}"
        shard = Shard(
            name, partition, coordinator, self._record_format, self._ports, self._append_times, self._reload
        )
        self._shards[partition] = shard
        self.spawn(shard.load(self._load_permits))

    def on_resignation(self, partition: int) -> None:
        """Unload `partition`, because this node is no longer its leader."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.close()

    def _reload(self, shard: Shard[CoordinatorT]) -> None:
        """Load a partition again, because its state in memory differs from its log."""
        if self._shards.get(shard.partition) is shard:
            logger.error(
                "Append to partition %s of %s failed; loading the partition again",
                shard.partition,
                self._name,
            )
            self.on_resignation(shard.partition)
            if self._is_running:
                self.on_leadership(shard.partition)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task, which `stop` cancels. An exception is logged when the task ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A task of the coordinator of %s failed", self._name, exc_info=error)

    def now(self) -> Moment:
        """Return the current time on both clocks."""
        clock = self._ports.clock
        return Moment(clock.wall_ms(), clock.monotonic_ms())

    # Look-ups

    def partition_for(self, key: str) -> int:
        """Return the partition that stores a group or a transactional id."""
        return partition_for(key, self._log.partition_count())

    def check_running(self) -> None:
        """Raise KafkaError COORDINATOR_NOT_AVAILABLE unless requests are served."""
        if not self._is_running:
            text = f"the coordinator of {self._name} is not running"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)

    def active_shard(self, key: str) -> Shard[CoordinatorT]:
        """Return the shard that serves a key. Raise KafkaError with the reason if there is none."""
        self.check_running()
        partition = self.partition_for(key)
        shard = self._shards.get(partition)
        if shard is not None and shard.state is ShardState.ACTIVE:
            self._check_leadership(partition)
            return shard
        if shard is not None and shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {partition} is loading")
        raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this node is not the leader of partition {partition}")

    def _check_leadership(self, partition: int) -> None:
        """Raise NOT_COORDINATOR if another node may be the leader, or if the log is not available.

        The log of a failed disk is lost before the metadata has a new leader. Clients of a coordinator do not
        expect KAFKA_STORAGE_ERROR.
        """
        try:
            is_likely_leader = self._log.is_likely_leader(partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if not is_likely_leader:
            text = f"the leadership of partition {partition} is not confirmed; it may have another leader"
            raise KafkaError(ErrorCode.NOT_COORDINATOR, text)

    def loaded_shards(self) -> list[Shard[CoordinatorT]]:
        """Return every active shard. Raise COORDINATOR_LOAD_IN_PROGRESS while a partition is loading."""
        self.check_running()
        loading = [s.partition for s in self._shards.values() if s.state is ShardState.LOADING]
        if loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partitions {loading} are loading")
        return self.active_shards()

    def active_shards(self) -> list[Shard[CoordinatorT]]:
        """Return the shards that are loaded."""
        return [shard for _, shard in sorted(self._shards.items()) if shard.state is ShardState.ACTIVE]

    def get(self, partition: int) -> Shard[CoordinatorT] | None:
        """Return the shard of a partition in any state; None if this node is not the leader."""
        return self._shards.get(partition)

    # Reads and writes

    async def confirm(self, shard: Shard[CoordinatorT]) -> None:
        """Wait until it is certain that no other node was the coordinator at the time of this call.

        Raise KafkaError NOT_COORDINATOR otherwise.
        """
        try:
            await self._log.confirm_leadership(shard.partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if shard.state is not ShardState.ACTIVE:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {shard.partition} has another leader")

    def begin_write(self, shard: Shard[CoordinatorT], writes: Writes[Any]) -> asyncio.Future[ErrorCode]:
        """Append and replay now. Return a future that completes with the result of the commit."""
        return _begin(lambda on_completed: shard.perform(writes, on_completed))

    async def write(self, shard: Shard[CoordinatorT], writes: Writes[Any]) -> None:
        """Append, replay and wait for the commit; without records, for that of all earlier ones.

        Raise KafkaError with the error of the reply.
        """
        commit = self.begin_commit(shard, writes)
        if commit is not None:
            await commit

    def respond_after(self, shard: Shard[CoordinatorT], writes: Writes[Any], reply: R) -> R | Awaitable[R]:
        """Append and replay now. Return `reply`, or an awaitable of it if records must be committed before.

        Nearly every heartbeat has no records and finds none that is not committed: it needs no task. The
        awaitable raises KafkaError with the error of the reply.
        """
        commit = self.begin_commit(shard, writes)
        return reply if commit is None else _after(commit, reply)

    def begin_commit(self, shard: Shard[CoordinatorT], writes: Writes[Any]) -> Awaitable[None] | None:
        """Append and replay now. Return an awaitable of the commit; None if there is nothing to wait for.

        A reply without records may depend on earlier records that are not committed, and that the next
        coordinator then does not know: it waits for them.
        Source: CoordinatorRuntime of Apache Kafka 4.3.
        """
        if writes.records:
            return self._wait_for_result(shard.partition, self.begin_write(shard, writes))
        shard.schedule_tick()
        return self._wait_for_earlier(shard.wait_for_commits()) if shard.has_uncommitted else None

    async def _wait_for_result(self, partition: int, result: asyncio.Future[ErrorCode]) -> None:
        """Return after a commit. Raise KafkaError with the error of the reply."""
        _check(await _result_within(result, self._commit_timeout_ms), partition)

    async def _wait_for_earlier(self, committed: asyncio.Future[None]) -> None:
        """Return after the commit of earlier records. Raise KafkaError with the error of the reply."""
        try:
            async with asyncio.timeout(self._commit_timeout_ms / 1000):
                await committed
        except TimeoutError:
            code = error_of_append(ErrorCode.REQUEST_TIMED_OUT)
            raise KafkaError(code, "earlier records are not committed yet") from None

    async def write_batched(
        self, shard: Shard[CoordinatorT], command: Callable[[CoordinatorT], Outcome[R]], key: Hashable
    ) -> R:
        """Run a batched command, and return its reply after the commit; see `Shard.perform_batched`.

        Raise KafkaError with the error of the command or of the reply.
        """
        result: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        reply = shard.perform_batched(command, _setter(result), key)
        _check(await result, shard.partition)
        return reply

    async def append_and_replay(
        self,
        shard: Shard[CoordinatorT],
        append: Callable[[], AppendedRecords],
        replay: Callable[[Offset], None],
        count: int,
    ) -> None:
        """Do the same as `write` with other functions that append and replay; see the shard's method."""
        error = await write_and_wait(
            lambda on_completed: shard.append_and_replay(append, replay, count, on_completed),
            self._commit_timeout_ms,
        )
        _check(error, shard.partition)


def _check(error: ErrorCode, partition: int) -> None:
    """Raise KafkaError with the error of the reply, unless the records are committed."""
    if error is not ErrorCode.NONE:
        raise KafkaError(error_of_append(error), f"partition {partition}: {error.text}")


async def _after(commit: Awaitable[None], reply: R) -> R:
    """Return `reply` after a commit."""
    await commit
    return reply


def _begin(write: Callable[[CompletionCallback], None]) -> asyncio.Future[ErrorCode]:
    """Call `write`, and return a future of the result of the commit."""
    result: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    write(_setter(result))
    return result


def _setter(result: asyncio.Future[ErrorCode]) -> CompletionCallback:
    """Return a function that sets the result of a future, unless its waiter has been cancelled."""

    def on_completed(error: ErrorCode) -> None:
        if not result.done():
            result.set_result(error)

    return on_completed


async def write_and_wait(write: Callable[[CompletionCallback], None], timeout_ms: int) -> ErrorCode:
    """Call `write` and return the result of the commit, or REQUEST_TIMED_OUT after `timeout_ms`."""
    return await _result_within(_begin(write), timeout_ms)


async def _result_within(result: asyncio.Future[ErrorCode], timeout_ms: int) -> ErrorCode:
    """Return the result of a commit, or REQUEST_TIMED_OUT after `timeout_ms`."""
    try:
        if not result.done():
            async with asyncio.timeout(timeout_ms / 1000):
                await result
        return result.result()
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT
