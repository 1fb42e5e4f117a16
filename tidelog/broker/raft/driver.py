"""The task that runs the quorum's state machine and performs its effects in order.

    waiting events -> step, step, ... -> effects up to the first Persist -> fsync -> other effects
                   -> PersistCompleted

During an fsync, which runs in a thread, events and callbacks wait. Then all of them are handled together, so
that they share one fsync. Only this task handles messages of other nodes and results of the disk.

Bounds: one timer; `steps` bounds the waiting events. Errors: any failure of the task (an fsync, the state
machine, a listener) is final. `on_fatal` is called once. Afterwards no event is handled and no message is
sent. A full disk and a shortage of descriptors are not failures: the task waits until there is room.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Protocol

from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.broker.raft.steps import MachineSteps
from tidelog.cluster.quorum.effects import (
    Effect,
    HighWatermark,
    LeaderChanged,
    Persist,
    Respond,
    Send,
    SnapshotLoaded,
)
from tidelog.cluster.quorum.events import PersistCompleted, Tick
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.schema import ApiMessage
from tidelog.storage.log.flush import FlushPlan

logger = logging.getLogger(__name__)

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})

FULL_DISK_PAUSE_S: Final = 0.5
"""The pause until quorum-state is written again after the disk had no room."""

RESIGN_S: Final = 1.0
"""The time that a resignation may take on the disk."""


class QuorumListener(Protocol):
    """The metadata store; its methods are called in the driver's task. Tests replace it."""

    def on_leader_changed(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """Handle a new epoch or leader; None if there is no leader."""

    def on_committed(self, offset: Offset) -> None:
        """Handle a new high watermark."""

    def on_snapshot_loaded(self, snapshot_id: SnapshotId) -> None:
        """Handle a fetched snapshot, with which the log now begins."""


class RequestSender(Protocol):
    """Sends requests to other nodes; reports each response, or None, once. Tests replace it."""

    def send(self, request: Send) -> None:
        """Send a request without waiting; a failure is reported like a missing response."""


class RaftDriver:
    """The task and its timer: `start`, then `stop`."""

    def __init__(
        self,
        steps: MachineSteps,
        log: MetadataLog,
        state_file: QuorumStateFile,
        *,
        listener: QuorumListener,
        sender: RequestSender,
        executor: Executor,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.failure: BaseException | None = None
        self._steps = steps
        self._log = log
        self._state_file = state_file
        self._listener = listener
        self._sender = sender
        self._executor = executor
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline_ms: int | None = None
        self._is_stopping = False
        self._waits_for_room = False

    def start(self) -> None:
        """Start the task; elections run from now on."""
        self._task = asyncio.create_task(self._run(), name="raft-driver")
        self._steps.post(Tick())

    def fail(self, error: BaseException) -> None:
        """End the task because of a fatal failure in another part of the node."""
        if self._task is not None:
            self._task.cancel()
        if self.failure is None:
            self._end(error)

    async def resign(self) -> None:
        """Resign if this node is the leader; return when the notifications of other voters were sent."""
        task = self._task
        if task is None or task.done():
            return
        self._steps.resign()
        resigned = asyncio.Event()
        self._steps.schedule(resigned.set)
        waiting = asyncio.create_task(resigned.wait())
        await asyncio.wait([waiting, task], timeout=RESIGN_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def stop(self, *, at_once: bool = False) -> None:
        """End the task when the current fsync has completed, or `at_once` as after a crash."""
        task, self._task = self._task, None
        self._is_stopping = True
        self._steps.wake()
        if task is not None:
            if at_once:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._cancel_timer()

    # ---- the task

    async def _run(self) -> None:
        try:
            while not self._is_stopping:
                await self._steps.wait()
                if self._is_stopping:
                    return
                self._steps.run()
                fault = self._steps.fault or self._log.failure
                if fault is not None:
                    raise fault
                while effects := self._steps.take_effects():
                    await self._perform(effects)
                self._set_timer()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._end(error)
            if not isinstance(error, Exception):
                raise

    async def _perform(self, effects: list[Effect]) -> None:
        """Perform all effects in order; the first Persist makes the data of all of them durable."""
        tickets = [effect.ticket for effect in effects if isinstance(effect, Persist)]
        is_durable = False
        for effect in effects:
            if not isinstance(effect, Persist):
                self._perform_one(effect)
            elif not is_durable:
                await self._persist([each for each in effects if isinstance(each, Persist)])
                is_durable = True
        for ticket in tickets:
            self._steps.step(PersistCompleted(ticket))

    def _perform_one(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._sender.send(effect)
        elif isinstance(effect, Respond):
            respond(effect.source, effect.message)
        elif isinstance(effect, HighWatermark):
            self._listener.on_committed(effect.offset)
        elif isinstance(effect, LeaderChanged):
            self._listener.on_leader_changed(effect.epoch, effect.leader_id)
        elif isinstance(effect, SnapshotLoaded):
            self._listener.on_snapshot_loaded(effect.snapshot_id)
        else:
            raise AssertionError(f"the driver does not handle the effect {effect}")

    async def _persist(self, requested: list[Persist]) -> None:
        """Write quorum-state and flush the log, as `requested`; wait while the disk has no room."""
        records = [each.record for each in requested if each.record is not None]
        plan = self._log.flush_plan() if any(each.flush_to is not None for each in requested) else None
        kraft_version, voters = self._steps.kraft_version, self._steps.voter_ids

        def make_durable() -> bool:
            if records and not self._try_write_state(records[-1], kraft_version, voters):
                return False
            return plan is None or self._try_flush(plan)

        try:
            loop = asyncio.get_running_loop()
            while not await loop.run_in_executor(self._executor, make_durable):
                await asyncio.sleep(FULL_DISK_PAUSE_S)
                if self._is_stopping:
                    raise asyncio.CancelledError
        except (OSError, KafkaError) as error:
            raise self._log.on_sync_failed(error) from error
        if plan is not None:
            self._log.on_flushed(plan)

    def _try_write_state(
        self, record: QuorumRecord, kraft_version: int, voters: tuple[BrokerId, ...]
    ) -> bool:
        """Write quorum-state; return False if the disk has no room and the old content remains.

        Until it is written, this node neither votes nor follows a leader. Its metadata can be read.
        """
        try:
            self._state_file.write(record, kraft_version=kraft_version, voters=voters)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            level = logging.DEBUG if self._waits_for_room else logging.ERROR
            logger.log(
                level,
                "Cannot write %s: %s; this node does not take part in the metadata quorum; retrying",
                self._state_file.path,
                error,
            )
            self._waits_for_room = True
            return False
        self._waits_for_room = False
        return True

    def _try_flush(self, plan: FlushPlan) -> bool:
        """Make the log durable; return False if there is no room for the leader epochs, or no descriptor.

        Nothing is lost then: a failed fsync, which must not be repeated, is a StorageFailure.
        """
        try:
            plan.run()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            level = logging.DEBUG if self._waits_for_room else logging.WARNING
            logger.log(level, "Cannot flush the metadata log: %s; retrying", error)
            self._waits_for_room = True
            return False
        self._waits_for_room = False
        return True

    def _end(self, error: BaseException) -> None:
        """Handle no further event after a fatal failure, and report it to the node."""
        logger.critical("The metadata quorum on this node has failed; stopping the node", exc_info=error)
        self.failure = error
        self._is_stopping = True
        self._steps.clear()
        self._cancel_timer()
        self._on_fatal(error)

    # ---- time

    def _set_timer(self) -> None:
        deadline_ms, delay_ms = self._steps.deadline_ms, self._steps.ms_to_deadline
        if deadline_ms == self._timer_deadline_ms and self._timer is not None:
            return
        self._cancel_timer()
        if delay_ms is not None and not self._is_stopping:
            self._timer_deadline_ms = deadline_ms
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._steps.post(Tick())

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def respond(source: object, message: ApiMessage) -> None:
    """Complete the future in `source` with the response, if a request still waits for it."""
    assert isinstance(source, asyncio.Future), f"{source!r} is not the future of a request"
    future: asyncio.Future[Any] = source
    if not future.done():
        future.set_result(message)
