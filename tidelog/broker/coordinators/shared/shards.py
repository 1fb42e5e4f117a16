"""The partitions of one internal topic that this node leads, each with its coordinator.

Follows leadership: `on_leadership` loads a partition, `on_resignation` forgets it. Until a
partition is loaded its keys answer COORDINATOR_LOAD_IN_PROGRESS, and where it is not led
NOT_COORDINATOR. A reply that depends on the log comes when its records are committed, or after
the commit time-out as COORDINATOR_NOT_AVAILABLE; the records may still be committed then, and are
applied when they are.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.shared.outcome import Writes, error_of_append
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.coordinators.shared.shard import (
    CoordinatorT,
    RecordForm,
    SettledCallback,
    Shard,
    ShardState,
    Timer,
)
from tidelog.broker.coordinators.shared.state_log import AppendedRecords, StateLog
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)

LOADS_AT_ONCE_MAX: Final = 4


class Shards(Generic[CoordinatorT]):
    """`make` makes the coordinator of a partition, by its number; `name` is what it coordinates."""

    def __init__(
        self,
        name: str,
        make: Callable[[int], CoordinatorT],
        form: RecordForm[CoordinatorT],
        log: StateLog,
        timer: Timer,
        clock: Clock,
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._name = name
        self._make = make
        self._form = form
        self._log = log
        self._timer = timer
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._shards: dict[int, Shard[CoordinatorT]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE_MAX)
        self._is_running = False
        self._has_stopped = False

    # Life

    def start(self) -> None:
        """Serve requests from now on."""
        assert not self._is_running
        self._is_running = True

    async def stop(self) -> None:
        """Tell everybody who waits NOT_COORDINATOR, and end all tasks, for good."""
        self._is_running = False
        self._has_stopped = True
        for partition in list(self._shards):
            self.on_resignation(partition)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_leadership(self, partition: int) -> None:
        """This node leads `partition` now; one that is served already stays as it is.

        One that could not be loaded gets another chance.
        """
        known = self._shards.get(partition)
        if self._has_stopped or (known is not None and known.state is not ShardState.FAILED):
            return
        coordinator = self._make(partition)
        shard = Shard(partition, coordinator, self._form, self._log, self._timer, self._clock, self._reload)
        self._shards[partition] = shard
        self.spawn(shard.load(self._loads))

    def on_resignation(self, partition: int) -> None:
        """This node does not lead `partition` any more."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.close()

    def _reload(self, shard: Shard[CoordinatorT]) -> None:
        """What is in memory is not what is in the log: start over from the log."""
        if self._shards.get(shard.partition) is shard:
            logger.error("partition %s: loading %s again after a failed append", shard.partition, self._name)
            self.on_resignation(shard.partition)
            if self._is_running:
                self.on_leadership(shard.partition)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task that ends with `stop`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    # Finding the coordinator

    def partition_for(self, key: str) -> int:
        """The partition that keeps a group or a transactional id."""
        return partition_for(key, self._log.partition_count())

    def check_running(self) -> None:
        """KafkaError COORDINATOR_NOT_AVAILABLE unless requests are served."""
        if not self._is_running:
            text = f"the coordinator of {self._name} is not running"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)

    def serving(self, key: str) -> Shard[CoordinatorT]:
        """The shard that serves a key, or KafkaError that says why there is none."""
        self.check_running()
        partition = self.partition_for(key)
        shard = self._shards.get(partition)
        if shard is not None and shard.state is ShardState.ACTIVE:
            self._check_likely_led(partition)
            return shard
        if shard is not None and shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {partition} is loading")
        raise KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {partition} is not served here")

    def _check_likely_led(self, partition: int) -> None:
        """NOT_COORDINATOR when another node may lead the partition, or when its log is lost here.

        A failed disk takes the log before the metadata takes the leadership, and no client of a
        coordinator knows KAFKA_STORAGE_ERROR.
        """
        try:
            is_likely_led = self._log.is_likely_led(partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if not is_likely_led:
            text = f"partition {partition} may have another coordinator, of whom this node has not heard"
            raise KafkaError(ErrorCode.NOT_COORDINATOR, text)

    def all_serving(self) -> list[Shard[CoordinatorT]]:
        """Every shard; KafkaError COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        self.check_running()
        loading = [s.partition for s in self._shards.values() if s.state is ShardState.LOADING]
        if loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partitions {loading} are loading")
        return self.active()

    def active(self) -> list[Shard[CoordinatorT]]:
        """The shards that are loaded."""
        return [shard for _, shard in sorted(self._shards.items()) if shard.state is ShardState.ACTIVE]

    def get(self, partition: int) -> Shard[CoordinatorT] | None:
        """The shard of a partition, loaded or not."""
        return self._shards.get(partition)

    # Certainty

    async def confirm(self, shard: Shard[CoordinatorT]) -> None:
        """Return when no other coordinator had the shard as this was called; else NOT_COORDINATOR."""
        try:
            await self._log.confirm_led(shard.partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if shard.state is not ShardState.ACTIVE:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {shard.partition} moved")

    def begin_write(self, shard: Shard[CoordinatorT], writes: Writes[Any]) -> asyncio.Future[ErrorCode]:
        """Append and replay now; the future is done, with what became of it, when that is committed."""
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def done(error: ErrorCode) -> None:
            if not outcome.done():
                outcome.set_result(error)

        shard.perform(writes, done)
        return outcome

    async def write(self, shard: Shard[CoordinatorT], writes: Writes[Any]) -> None:
        """Append, replay and wait for the commit; KafkaError with the code for the reply."""
        error = await settled(lambda done: shard.perform(writes, done), self._commit_timeout_ms)
        _check(error, shard.partition)

    async def append_and_replay(
        self,
        shard: Shard[CoordinatorT],
        append: Callable[[], AppendedRecords],
        replay: Callable[[Offset], None],
        count: int,
    ) -> None:
        """`write` for records that are not written as others are; see `Shard.append_and_replay`."""
        error = await settled(
            lambda done: shard.append_and_replay(append, replay, count, done), self._commit_timeout_ms
        )
        _check(error, shard.partition)


def _check(error: ErrorCode, partition: int) -> None:
    if error is not ErrorCode.NONE:
        raise KafkaError(error_of_append(error), f"partition {partition}: {error.text}")


async def settled(write: Callable[[SettledCallback], None], timeout_ms: int) -> ErrorCode:
    """What becomes of what `write` appends; REQUEST_TIMED_OUT when that takes too long."""
    outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def done(error: ErrorCode) -> None:
        if not outcome.done():
            outcome.set_result(error)

    write(done)
    try:
        if not outcome.done():
            async with asyncio.timeout(timeout_ms / 1000):
                await outcome
        return outcome.result()
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT
