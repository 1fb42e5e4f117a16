"""One partition of an internal topic that this node leads: its coordinator, its log, its timer.

I/O: appends through the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.shared.append_batch import (
    AppendBatch,
    CompletionCallback,
    complete_command,
    parts_of,
)
from tidelog.broker.coordinators.shared.append_linger import AppendLinger, AppendTimes
from tidelog.broker.coordinators.shared.coordinator import CoordinatorT, RecordFormat
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, FollowUp, Outcome, Writes
from tidelog.broker.coordinators.shared.state_log import AppendedRecords, StateLog
from tidelog.broker.coordinators.shared.timer import Timer, TimerHandle
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)

R = TypeVar("R")

RECORDS_BETWEEN_PAUSES: Final = 500
"""The number of records that loading replays before it yields to other work of the event loop."""


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

    The records of `perform_batched` are collected before they are appended. Until then they have not been
    replayed, so that nothing has changed if their append fails. All other commands see the state with them:
    they are appended and replayed before.
    Bounds: the appends in flight are bounded by the requests in flight.
    """

    def __init__(
        self,
        name: str,
        partition: int,
        coordinator: CoordinatorT,
        record_format: RecordFormat[CoordinatorT],
        ports: ShardPorts,
        append_times: AppendTimes,
        on_diverged: Callable[[Shard[CoordinatorT]], None],
    ) -> None:
        self._name = name
        self.partition = partition
        self._coordinator = coordinator
        self.state = ShardState.LOADING
        self._record_format = record_format
        self._log = ports.log
        self._timer = ports.timer
        self._clock = ports.clock
        self._on_diverged = on_diverged
        self._linger = AppendLinger(
            append_times, ports.timer, lambda: ports.log.batch_bytes_max(partition), self._append_batch
        )
        self._in_flight: deque[_InFlight] = deque()
        self._waiting_for_commits: dict[asyncio.Future[None], Offset] = {}
        self._timer_handle: TimerHandle | None = None
        self._timer_deadline_ms = 0

    def now(self) -> Moment:
        """Return the current time on both clocks."""
        return Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

    @property
    def coordinator(self) -> CoordinatorT:
        """The coordinator with the state of all commands until now, also of the batched ones."""
        self.flush_batch()
        return self._coordinator

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
            first_writes = self._coordinator.finish_loading(self.now())
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
            for count, next_offset in self._record_format.replay_batches(self._coordinator, batches):
                self._coordinator.advance(next_offset)
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
        self.flush_batch()
        for part, is_last in parts_of(writes):
            error = self._append(part, on_completed if is_last else None)
            if error is not ErrorCode.NONE:
                self._follow_up(writes.follow_up, error)
                if on_completed is not None:
                    on_completed(error)
                break
        self.schedule_tick()

    def perform_batched(
        self,
        command: Callable[[CoordinatorT], Outcome[R]],
        on_completed: CompletionCallback,
        key: Hashable | None = None,
    ) -> R:
        """Run `command`, and append and replay its records together with those of other batched commands.

        `command` gets the coordinator without the records that wait for their append. It must not depend on
        them: `key` identifies the state that it reads and changes, and a batch has each key once. Without a
        key, it reads nothing that batched commands change. It has no follow-up.

        Return its reply, which may be sent when `on_completed` is called with NONE; REQUEST_TIMED_OUT means
        that the commit takes longer than the commit timeout. Errors of the command are raised.
        """
        if key is not None and self._linger.has_key(key):
            self._linger.flush()
        reply, writes = command(self._coordinator)
        assert writes.follow_up is None, "batched commands have no follow-up"
        if writes.records:
            self._linger.add(writes.records, self._encoded(writes), on_completed, key)
        else:
            on_completed(ErrorCode.NONE)
            self.schedule_tick()
        return reply

    def flush_batch(self) -> None:
        """Append and replay the records that have been collected."""
        self._linger.flush()

    def next_part(self, parts: Iterator[Writes[Any]]) -> Writes[Any] | None:
        """Return the next part of a command that takes several turns of the loop; None at its end.

        It is computed from the state of all commands until now, also of the batched ones.
        """
        self.flush_batch()
        return next(parts, None)

    def _append_batch(self, batch: AppendBatch) -> None:
        """Append and replay a batch, and complete it with the result."""

        def append() -> AppendedRecords:
            return self._log.append(self.partition, batch.encoded)

        count = len(batch.records)
        error = self._append_and_replay(append, self._replay(batch.records), count, NO_WRITES, batch.complete)
        batch.release_records()
        if error is not ErrorCode.NONE:
            batch.complete(error)
        # Once for all commands of the batch, which may have moved deadlines.
        self.schedule_tick()

    def _append(self, writes: Writes[Any], on_completed: CompletionCallback | None) -> ErrorCode:
        """Append and replay one batch; return NONE, or the error of an append that has changed nothing."""
        if not writes.records:
            if on_completed is not None:
                on_completed(ErrorCode.NONE)
            return ErrorCode.NONE

        def append() -> AppendedRecords:
            if writes.encoded is None:
                # A large record that is encoded before it is rejected would block the loop for long.
                size_bytes = sum(map(self._record_format.size_bytes_min, writes.records))
                self._log.check_size(self.partition, size_bytes)
            return self._log.append(self.partition, self._encoded(writes))

        replay = self._replay(writes.records)
        return self._append_and_replay(append, replay, len(writes.records), writes, on_completed)

    def _encoded(self, writes: Writes[Any]) -> EncodedRecords:
        if writes.encoded is not None:
            return writes.encoded
        return EncodedRecords(map(self._record_format.encode, writes.records))

    def _replay(self, records: Sequence[Any]) -> Callable[[Offset], None]:
        """Return a function that replays `records`, the first one at the offset that it is called with."""

        def replay(base_offset: Offset) -> None:
            for offset, record in enumerate(records, base_offset):
                self._coordinator.replay(record, offset)

        return replay

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
        self.flush_batch()
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
                    complete_command(entry.on_completed, error)
                self._on_diverged(self)
                return
            self._coordinator.advance(entry.next_offset)
            self._follow_up(entry.follow_up, ErrorCode.NONE)
            if entry.on_completed is not None:
                complete_command(entry.on_completed, ErrorCode.NONE)
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
        """Whether a record is not committed yet. Append the records that have been collected."""
        self.flush_batch()
        return bool(self._in_flight)

    def wait_for_commits(self) -> asyncio.Future[None]:
        """Return a future of the commit of all current appends, which may be cancelled.

        It raises NOT_COORDINATOR if they are never committed.
        """
        assert self._in_flight
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_commits[future] = self._in_flight[-1].next_offset
        future.add_done_callback(self._forget_waiting)
        return future

    def _forget_waiting(self, future: asyncio.Future[None]) -> None:
        """Remove a future of `wait_for_commits`. Its error is retrieved even if its waiter has ended."""
        self._waiting_for_commits.pop(future, None)
        if not future.cancelled():
            future.exception()

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
        self._coordinator.resign()
        in_flight, self._in_flight = self._in_flight, deque()
        for entry in in_flight:
            if entry.on_completed is not None:
                complete_command(entry.on_completed, ErrorCode.NOT_COORDINATOR)
        self._linger.fail(ErrorCode.NOT_COORDINATOR)
        waiting, self._waiting_for_commits = self._waiting_for_commits, {}
        for future in waiting:
            if not future.done():
                text = f"partition {self.partition} has another leader"
                future.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR, text))

    # Deadlines

    def schedule_tick(self) -> None:
        """Schedule the timer for the coordinator's next deadline. A timer that is early has no effect."""
        deadline_ms = self._coordinator.next_deadline_ms()
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
        if self.state is not ShardState.ACTIVE:
            return
        try:
            for writes in self.coordinator.tick(self.now()):
                self.perform(writes)
        finally:
            # A defect at one deadline must not stop the later ones; the timer logs the error.
            self.schedule_tick()
