"""One partition of an internal topic that this node leads: its coordinator, its log, its timer.

I/O: appends through the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, FollowUp, Writes
from tidelog.broker.coordinators.shared.state_log import AppendedRecords, StateLog
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)

RECORDS_PER_BATCH_MAX: Final = 500
"""The batch size of writes that may be split."""

RECORDS_BETWEEN_PAUSES: Final = 500
"""The number of records that loading replays before it yields to other work of the event loop."""

CompletionCallback = Callable[[ErrorCode], None]


class Coordinator(Protocol):
    """The core of one partition. Only `replay` changes the state that a restart must restore."""

    def replay(self, record: Any, record_offset: Offset, /) -> None:
        """Apply one record of the log."""

    def advance(self, high_watermark: Offset, /) -> None:
        """Note that the records below `high_watermark` are committed."""

    def finish_loading(self, now: Moment, /) -> Sequence[Writes[Any]]:
        """Note that all records of the log are replayed. Return the first writes."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next call of `tick`; None if no deadline is set."""
        ...

    def tick(self, now: Moment, /) -> Iterable[Writes[Any]]:
        """Handle the deadlines that have expired. Return the records to write.

        Each part is written before the next one is requested.
        """
        ...

    def resign(self) -> None:
        """Fail all waiting requests, because another node leads the partition, and drop the state."""


CoordinatorT = TypeVar("CoordinatorT", bound=Coordinator)


class RecordFormat(NamedTuple, Generic[CoordinatorT]):
    """The functions that encode and replay a coordinator's records.

    `encode` returns the key and the value of a record. `replay_batches` replays batches one after the other
    and yields the record count and the next offset of each. It raises DecodeError for an invalid record.
    `size_bytes_min` returns a number of bytes that key and value have at least, without encoding them.
    """

    encode: Callable[[Any], tuple[bytes, bytes | None]]
    replay_batches: Callable[[CoordinatorT, bytes | memoryview], Iterator[tuple[int, Offset]]]
    size_bytes_min: Callable[[Any], int] = lambda record: 0


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; has no effect after the call."""


class Timer(Protocol):
    """Calls functions after a delay; `tidelog.broker.purgatory.timers.Timers` is one."""

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` in `delay_ms`."""
        ...


class ShardPorts(NamedTuple):
    """The log that stores the state, the timer of the deadlines, and the clock."""

    log: StateLog
    timer: Timer
    clock: Clock


class ShardState(Enum):
    """Whether a partition can be served."""

    LOADING = 0
    ACTIVE = 1
    FAILED = 2
    CLOSED = 3


class _InFlight(NamedTuple):
    """An append that has been replayed and is not committed yet. It does not hold the records."""

    next_offset: Offset
    committed: asyncio.Future[None]
    follow_up: FollowUp[Any] | None
    on_completed: CompletionCallback | None


class Shard(Generic[CoordinatorT]):
    """Appends and replays the records that the commands of its coordinator return.

    `name` is for log lines: the partition and the kind of coordinator. `on_diverged` is called if records
    that have been replayed are not committed: the state in memory is then ahead of the log, and the partition
    must be loaded again.
    Bounds: the appends in flight are bounded by the requests in flight.
    """

    def __init__(
        self,
        name: str,
        partition: int,
        coordinator: CoordinatorT,
        record_format: RecordFormat[CoordinatorT],
        ports: ShardPorts,
        on_diverged: Callable[[Shard[CoordinatorT]], None],
    ) -> None:
        self._name = name
        self.partition = partition
        self.coordinator = coordinator
        self.state = ShardState.LOADING
        self._record_format = record_format
        self._log = ports.log
        self._timer = ports.timer
        self._clock = ports.clock
        self._on_diverged = on_diverged
        self._in_flight: deque[_InFlight] = deque()
        self._waiting_for_commits: dict[asyncio.Future[None], Offset] = {}
        self._timer_handle: TimerHandle | None = None
        self._timer_deadline_ms = 0

    def now(self) -> Moment:
        """Return the current time on both clocks."""
        return Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

    async def load(self, permits: asyncio.Semaphore) -> None:
        """Replay the log, which takes time linear in its size, with pauses for other work.

        Reading needs one of `permits`; waiting for the commit does not. A partition that cannot be read is
        not served, because its state would be lost.
        """
        started_ms = self._clock.monotonic_ms()
        try:
            async with permits:
                count, end_offset = await self._replay_log()
            if self.state is ShardState.LOADING:
                await self._log.wait_until_committed(self.partition, end_offset)
            if self.state is not ShardState.LOADING:
                return
            first_writes = self.coordinator.finish_loading(self.now())
        except Exception as error:
            # Any error: otherwise clients would get COORDINATOR_LOAD_IN_PROGRESS forever.
            bug = None if isinstance(error, KafkaError | OSError | ValueError) else error
            logger.error("Cannot load %s: %s", self._name, error, exc_info=bug)
            if self.state is ShardState.LOADING:
                self.state = ShardState.FAILED
            return
        self.state = ShardState.ACTIVE
        for writes in first_writes:
            self.perform(writes)
        self.schedule_tick()
        elapsed_ms = self._clock.monotonic_ms() - started_ms
        logger.info("Loaded %s: %d records in %d ms", self._name, count, elapsed_ms)

    async def _replay_log(self) -> tuple[int, Offset]:
        """Replay the log until its end or until the shard is closed. Return record count and end offset."""
        total = unpaused = 0
        next_offset: Offset = 0
        if self.state is not ShardState.LOADING:
            return total, next_offset
        async for batches in self._log.read(self.partition):
            for count, next_offset in self._record_format.replay_batches(self.coordinator, batches):
                self.coordinator.advance(next_offset)
                total += count
                unpaused += count
                if unpaused >= RECORDS_BETWEEN_PAUSES:
                    unpaused = 0
                    await asyncio.sleep(0)
                if self.state is not ShardState.LOADING:
                    return total, next_offset
        return total, next_offset

    def perform(self, writes: Writes[Any], on_completed: CompletionCallback | None = None) -> None:
        """Append and replay the records of `writes`, and run their follow-up after the commit.

        `on_completed` is called with NONE after the commit, or with the error. The command, the append and
        the replay are one step: no other command may run in between.
        """
        for part, is_last in _split(writes):
            error = self._append(part, on_completed if is_last else None)
            if error is not ErrorCode.NONE:
                self._follow_up(writes.follow_up, error)
                if on_completed is not None:
                    on_completed(error)
                break
        self.schedule_tick()

    def _append(self, writes: Writes[Any], on_completed: CompletionCallback | None) -> ErrorCode:
        """Append and replay one batch; return NONE, or the error of an append that has changed nothing."""
        if not writes.records:
            if on_completed is not None:
                on_completed(ErrorCode.NONE)
            return ErrorCode.NONE

        def append() -> AppendedRecords:
            encoded, record_format = writes.encoded, self._record_format
            if encoded is None:
                # A large record that is encoded before it is rejected would block the loop for long.
                self._log.check_size(self.partition, sum(map(record_format.size_bytes_min, writes.records)))
                encoded = [record_format.encode(record) for record in writes.records]
            return self._log.append(self.partition, encoded)

        def replay(base_offset: Offset) -> None:
            for offset, record in enumerate(writes.records, base_offset):
                self.coordinator.replay(record, offset)

        return self._append_and_replay(append, replay, len(writes.records), writes, on_completed)

    def append_and_replay(
        self,
        append: Callable[[], AppendedRecords],
        replay: Callable[[Offset], None],
        count: int,
        on_completed: CompletionCallback,
    ) -> None:
        """Append `count` records with `append` and replay them with `replay`, or do neither.

        `replay` gets the offset of the first record and must not fail.
        """
        error = self._append_and_replay(append, replay, count, NO_WRITES, on_completed)
        if error is not ErrorCode.NONE:
            on_completed(error)

    def _append_and_replay(
        self,
        append: Callable[[], AppendedRecords],
        replay: Callable[[Offset], None],
        count: int,
        writes: Writes[Any],
        on_completed: CompletionCallback | None,
    ) -> ErrorCode:
        try:
            appended = append()
        except KafkaError as error:
            # The storage logs its own errors, and on a full disk every append fails.
            level = logging.DEBUG if error.code is ErrorCode.KAFKA_STORAGE_ERROR else logging.WARNING
            logger.log(level, "Cannot append records to %s: %s", self._name, error)
            return error.code
        except (OSError, ValueError) as error:
            logger.error("Cannot append records to %s: %s", self._name, error)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        replay(appended.base_offset)
        committed = asyncio.ensure_future(appended.committed)
        next_offset = appended.base_offset + count
        self._in_flight.append(_InFlight(next_offset, committed, writes.follow_up, on_completed))
        if committed.done():
            self._complete_committed()
        else:
            committed.add_done_callback(self._on_committed)
        return ErrorCode.NONE

    def _on_committed(self, committed: asyncio.Future[None]) -> None:
        """Complete an append. Its error is retrieved even if the shard has been closed."""
        if not committed.cancelled():
            committed.exception()
        self._complete_committed()

    def _complete_committed(self) -> None:
        """Complete the appends that are committed, in the order of the log."""
        while self._in_flight and self._in_flight[0].committed.done():
            entry = self._in_flight.popleft()
            error = self._outcome_of(entry.committed)
            if error is not ErrorCode.NONE:
                self._follow_up(entry.follow_up, error)
                if entry.on_completed is not None:
                    entry.on_completed(error)
                self._on_diverged(self)
                return
            self.coordinator.advance(entry.next_offset)
            self._follow_up(entry.follow_up, ErrorCode.NONE)
            if entry.on_completed is not None:
                entry.on_completed(ErrorCode.NONE)
            self._complete_waiting(entry.next_offset)
        self.schedule_tick()

    def _follow_up(self, follow_up: FollowUp[Any] | None, error: ErrorCode) -> None:
        """Call `follow_up`, if there is one, and perform the writes that it returns."""
        if follow_up is not None:
            writes = follow_up(error, self.now())
            if writes is not NO_WRITES:
                self.perform(writes)

    def _outcome_of(self, committed: asyncio.Future[None]) -> ErrorCode:
        """Return NONE if the records are committed, else the error, which is logged."""
        if committed.cancelled():
            return ErrorCode.NOT_COORDINATOR
        error = committed.exception()
        if error is None:
            return ErrorCode.NONE
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        # The leader changes whenever a node is stopped, so this is not an error.
        level = logging.INFO if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else logging.ERROR
        logger.log(level, "Records appended to %s are not committed: %s", self._name, error)
        return code

    @property
    def has_uncommitted(self) -> bool:
        """Whether an append is not committed yet."""
        return bool(self._in_flight)

    async def wait_for_commits(self) -> None:
        """Wait for the commit of all current appends. Raise NOT_COORDINATOR if they are never committed."""
        assert self._in_flight
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_commits[future] = self._in_flight[-1].next_offset
        try:
            await future
        finally:
            self._waiting_for_commits.pop(future, None)

    def _complete_waiting(self, next_offset: Offset) -> None:
        """Complete the futures of `wait_for_commits` whose records are committed."""
        # The order of the dictionary is also the order of the offsets.
        while self._waiting_for_commits:
            future, offset = next(iter(self._waiting_for_commits.items()))
            if offset > next_offset:
                return
            del self._waiting_for_commits[future]
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Stop serving, and fail all waiting requests with NOT_COORDINATOR."""
        self.state = ShardState.CLOSED
        if self._timer_handle is not None:
            self._timer_handle.cancel()
            self._timer_handle = None
        self.coordinator.resign()
        in_flight, self._in_flight = self._in_flight, deque()
        for entry in in_flight:
            if entry.on_completed is not None:
                entry.on_completed(ErrorCode.NOT_COORDINATOR)
        waiting, self._waiting_for_commits = self._waiting_for_commits, {}
        for future in waiting:
            if not future.done():
                text = f"partition {self.partition} has another leader"
                future.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR, text))

    # Deadlines

    def schedule_tick(self) -> None:
        """Schedule the timer for the coordinator's next deadline. A timer that is early has no effect."""
        deadline_ms = self.coordinator.next_deadline_ms()
        if self.state is not ShardState.ACTIVE or deadline_ms is None:
            return
        if self._timer_handle is not None:
            if self._timer_deadline_ms <= deadline_ms:
                return
            self._timer_handle.cancel()
        self._timer_deadline_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._timer_handle = self._timer.schedule(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer_handle = None
        if self.state is ShardState.ACTIVE:
            for writes in self.coordinator.tick(self.now()):
                self.perform(writes)
            self.schedule_tick()


def _split(writes: Writes[Any]) -> list[tuple[Writes[Any], bool]]:
    """Return parts that each fit into one batch, and whether a part is the last one."""
    records = writes.records
    if not writes.may_split or len(records) <= RECORDS_PER_BATCH_MAX:
        return [(writes, True)]
    assert writes.follow_up is None, "writes that may be split have no follow-up"
    starts = range(0, len(records), RECORDS_PER_BATCH_MAX)
    return [(Writes(records[start : start + RECORDS_PER_BATCH_MAX]), start == starts[-1]) for start in starts]
