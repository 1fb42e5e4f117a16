"""One partition of an internal topic that this node leads: its coordinator, its log, its timer.

I/O: appends through the StateLog it is given; must be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NOTHING, Settled, Writes
from tidelog.broker.coordinators.shared.state_log import AppendedRecords, StateLog
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)

RECORDS_PER_BATCH_MAX: Final = 500
"""For writes that may be split."""

RECORDS_BETWEEN_PAUSES: Final = 500
"""While loading: how much is replayed before others get their turn on the loop."""

SettledCallback = Callable[[ErrorCode], None]


class Coordinator(Protocol):
    """The core of one partition; only `replay` changes what a restart must know."""

    def replay(self, record: Any, record_offset: Offset, /) -> None:
        """Apply one record of the log."""

    def advance(self, high_watermark: Offset, /) -> None:
        """Records below `high_watermark` are committed."""

    def finish_loading(self, now: Moment, /) -> Sequence[Writes[Any]]:
        """All records of the log are replayed; what is to be written first."""
        ...

    def next_due_ms(self) -> int | None:
        """When `tick` must be called next, on the monotonic clock; None when nothing is pending."""
        ...

    def tick(self, now: Moment, /) -> Sequence[Writes[Any]]:
        """Do what is due."""
        ...

    def resign(self) -> None:
        """Another node leads the partition: whoever waits is sent there, and all is forgotten."""


CoordinatorT = TypeVar("CoordinatorT", bound=Coordinator)


class RecordForm(NamedTuple, Generic[CoordinatorT]):
    """How a coordinator's records stand in its log.

    `encode`: key and value of a record. `replay_batches` replays whole batches one after the other, and
    gives after each its record count and the next offset; it raises DecodeError for what it cannot read.
    """

    encode: Callable[[Any], tuple[bytes, bytes | None]]
    replay_batches: Callable[[CoordinatorT, bytes | memoryview], Iterator[tuple[int, Offset]]]


class TimerHandle(Protocol):
    """A timer that runs."""

    def cancel(self) -> None:
        """Stop it; harmless when it is over."""


class Timer(Protocol):
    """Calls functions after a delay; `tidelog.broker.purgatory.timers.Timers` is one."""

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` in `delay_ms`."""
        ...


class ShardState(Enum):
    """Whether what a partition keeps can be served."""

    LOADING = 0
    ACTIVE = 1
    FAILED = 2
    CLOSED = 3


class _InFlight(NamedTuple):
    """An append that is replayed and waits to be committed."""

    next_offset: Offset
    committed: asyncio.Future[None]
    settled: Settled[Any] | None
    """What follows; not the records, which may wait for a slow replica."""
    done: SettledCallback | None


class Shard(Generic[CoordinatorT]):
    """Performs what its coordinator decides.

    `on_diverged` is called when an append fails after it was replayed: memory is then ahead of
    the log, and the partition must be loaded anew.
    Bounds: appends in flight are bounded by the requests in flight.
    """

    def __init__(
        self,
        partition: int,
        coordinator: CoordinatorT,
        form: RecordForm[CoordinatorT],
        log: StateLog,
        timer: Timer,
        clock: Clock,
        on_diverged: Callable[[Shard[CoordinatorT]], None],
    ) -> None:
        self.partition = partition
        self.coordinator = coordinator
        self.state = ShardState.LOADING
        self._form = form
        self._log = log
        self._timer = timer
        self._clock = clock
        self._on_diverged = on_diverged
        self._in_flight: deque[_InFlight] = deque()
        self._waiting_for_all: dict[asyncio.Future[None], Offset] = {}
        self._timer_handle: TimerHandle | None = None
        self._timer_due_ms = 0

    def now(self) -> Moment:
        """This moment on both clocks."""
        return Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

    async def load(self, places: asyncio.Semaphore) -> None:
        """Replay the log; linear in its size, and other work goes on meanwhile.

        It takes one of `places` to read, and none to wait until what was read may be acted on.
        A partition that cannot be read is not served: what it keeps would be lost.
        """
        started_ms = self._clock.monotonic_ms()
        try:
            async with places:
                count, end_offset = await self._replay_log()
            if self.state is ShardState.LOADING:
                await self._log.settled(self.partition, end_offset)
            if self.state is not ShardState.LOADING:
                return
            following = self.coordinator.finish_loading(self.now())
        except Exception as error:
            # Whatever it is, else clients would be told to wait for ever.
            bug = None if isinstance(error, KafkaError | OSError | ValueError) else error
            logger.error("cannot load partition %s: %s", self.partition, error, exc_info=bug)
            if self.state is ShardState.LOADING:
                self.state = ShardState.FAILED
            return
        self.state = ShardState.ACTIVE
        for writes in following:
            self.perform(writes)
        self.arm()
        took_ms = self._clock.monotonic_ms() - started_ms
        logger.info("partition %s: %s records loaded in %s ms", self.partition, count, took_ms)

    async def _replay_log(self) -> tuple[int, Offset]:
        """Replay everything, or until the shard is closed; how many records that were, and where they end."""
        total = unpaused = 0
        next_offset: Offset = 0
        if self.state is not ShardState.LOADING:
            return total, next_offset
        async for batches in self._log.read(self.partition):
            for count, next_offset in self._form.replay_batches(self.coordinator, batches):
                self.coordinator.advance(next_offset)
                total += count
                unpaused += count
                if unpaused >= RECORDS_BETWEEN_PAUSES:
                    unpaused = 0
                    await asyncio.sleep(0)
                if self.state is not ShardState.LOADING:
                    return total, next_offset
        return total, next_offset

    def perform(self, writes: Writes[Any], done: SettledCallback | None = None) -> None:
        """Append and replay at once; `done` is called when that is committed, or with why it is not.

        Everything before the append returns is one step: nothing comes between.
        """
        for part, is_last in _split(writes):
            error = self._append(part, done if is_last else None)
            if error is not ErrorCode.NONE:
                self._settle(writes.settled, error)
                if done is not None:
                    done(error)
                break
        self.arm()

    def _append(self, writes: Writes[Any], done: SettledCallback | None) -> ErrorCode:
        if not writes.records:
            if done is not None:
                done(ErrorCode.NONE)
            return ErrorCode.NONE

        def append() -> AppendedRecords:
            encoded = writes.encoded
            if encoded is None:
                encoded = [self._form.encode(record) for record in writes.records]
            return self._log.append(self.partition, encoded)

        def replay(base_offset: Offset) -> None:
            for offset, record in enumerate(writes.records, base_offset):
                self.coordinator.replay(record, offset)

        return self._append_and_replay(append, replay, len(writes.records), writes, done)

    def append_and_replay(
        self,
        append: Callable[[], AppendedRecords],
        replay: Callable[[Offset], None],
        count: int,
        done: SettledCallback,
    ) -> None:
        """`perform` for `count` records that are not written as others are; both or neither of the two.

        `replay` gets the offset of the first of them, and must not fail.
        """
        error = self._append_and_replay(append, replay, count, NOTHING, done)
        if error is not ErrorCode.NONE:
            done(error)

    def _append_and_replay(
        self,
        append: Callable[[], AppendedRecords],
        replay: Callable[[Offset], None],
        count: int,
        writes: Writes[Any],
        done: SettledCallback | None,
    ) -> ErrorCode:
        try:
            appended = append()
        except KafkaError as error:
            # Storage reports its errors itself, and a full disk makes every append fail.
            level = logging.DEBUG if error.code is ErrorCode.KAFKA_STORAGE_ERROR else logging.WARNING
            logger.log(level, "partition %s: records are not appended: %s", self.partition, error)
            return error.code
        except (OSError, ValueError) as error:
            logger.error("partition %s: records cannot be appended: %s", self.partition, error)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        replay(appended.base_offset)
        committed = asyncio.ensure_future(appended.committed)
        self._in_flight.append(_InFlight(appended.base_offset + count, committed, writes.settled, done))
        if committed.done():
            self._drain()
        else:
            committed.add_done_callback(self._on_committed)
        return ErrorCode.NONE

    def _on_committed(self, committed: asyncio.Future[None]) -> None:
        """Settle an append; its error is retrieved even if the shard was closed and does not wait for it."""
        if not committed.cancelled():
            committed.exception()
        self._drain()

    def _drain(self) -> None:
        """Settle what is committed, in the order of the log."""
        while self._in_flight and self._in_flight[0].committed.done():
            entry = self._in_flight.popleft()
            error = _outcome_of(entry.committed)
            if error is not ErrorCode.NONE:
                self._settle(entry.settled, error)
                if entry.done is not None:
                    entry.done(error)
                self._on_diverged(self)
                return
            self.coordinator.advance(entry.next_offset)
            self._settle(entry.settled, ErrorCode.NONE)
            if entry.done is not None:
                entry.done(ErrorCode.NONE)
            self._wake_waiting(entry.next_offset)
        self.arm()

    def _settle(self, settled: Settled[Any] | None, error: ErrorCode) -> None:
        if settled is not None:
            following = settled(error, self.now())
            if following is not NOTHING:
                self.perform(following)

    @property
    def has_uncommitted(self) -> bool:
        """Whether an append is not committed yet."""
        return bool(self._in_flight)

    async def all_committed(self) -> None:
        """Wait until everything that is appended by now is committed; NOT_COORDINATOR when it never is."""
        assert self._in_flight
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_all[future] = self._in_flight[-1].next_offset
        try:
            await future
        finally:
            self._waiting_for_all.pop(future, None)

    def _wake_waiting(self, next_offset: Offset) -> None:
        # In the order in which they came, so that of the offsets, too.
        while self._waiting_for_all:
            future, offset = next(iter(self._waiting_for_all.items()))
            if offset > next_offset:
                return
            del self._waiting_for_all[future]
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Serve no more: all that waits is told NOT_COORDINATOR."""
        self.state = ShardState.CLOSED
        if self._timer_handle is not None:
            self._timer_handle.cancel()
            self._timer_handle = None
        self.coordinator.resign()
        in_flight, self._in_flight = self._in_flight, deque()
        for entry in in_flight:
            if entry.done is not None:
                entry.done(ErrorCode.NOT_COORDINATOR)
        waiting, self._waiting_for_all = self._waiting_for_all, {}
        for future in waiting:
            if not future.done():
                future.set_exception(
                    KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {self.partition} moved")
                )

    # Time

    def arm(self) -> None:
        """Have the timer go off when the coordinator has something to do; too early does no harm."""
        due_ms = self.coordinator.next_due_ms()
        if self.state is not ShardState.ACTIVE or due_ms is None:
            return
        if self._timer_handle is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer_handle.cancel()
        self._timer_due_ms = due_ms
        delay_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        self._timer_handle = self._timer.schedule(delay_ms, self._timer_went_off)

    def _timer_went_off(self) -> None:
        self._timer_handle = None
        if self.state is ShardState.ACTIVE:
            for writes in self.coordinator.tick(self.now()):
                self.perform(writes)
            self.arm()


def _split(writes: Writes[Any]) -> list[tuple[Writes[Any], bool]]:
    """Parts that each fit a batch, and whether a part is the last one."""
    records = writes.records
    if not writes.may_split or len(records) <= RECORDS_PER_BATCH_MAX:
        return [(writes, True)]
    assert writes.settled is None, "what may be split has nothing that follows it"
    starts = range(0, len(records), RECORDS_PER_BATCH_MAX)
    return [(Writes(records[start : start + RECORDS_PER_BATCH_MAX]), start == starts[-1]) for start in starts]


def _outcome_of(committed: asyncio.Future[None]) -> ErrorCode:
    if committed.cancelled():
        return ErrorCode.NOT_COORDINATOR
    error = committed.exception()
    if error is None:
        return ErrorCode.NONE
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    # Leadership moves whenever a node stops.
    level = logging.INFO if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else logging.ERROR
    logger.log(level, "appended records are not committed: %s", error)
    return code
