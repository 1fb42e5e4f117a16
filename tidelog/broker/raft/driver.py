"""The one task that lets the quorum's state machine take steps, and does what it asks for.

    events wait -> step, step, ... -> effects up to the first Persist -> durable -> rest -> PersistCompleted

While something is being made durable in a thread, events and appends wait; then all that came
meanwhile is worked off together, so that one sync serves many. What another node sends or the disk
does never runs outside of a turn of this task.

Bounds: requests of other nodes come through the request channel of their listener or wait in the
state machine, which bounds them; one timer.
Errors: whatever fails in a turn (a sync, the state machine, replaying a committed record) is final:
`on_fatal` is told once and nothing is stepped, sent or answered any more. Room on a full disk, and a
descriptor to sync with, are waited for.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Final, Protocol, TypeAlias

from tidelog.base.clock import Clock
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.cluster.quorum.effects import (
    AppendRejected,
    Effect,
    HighWatermark,
    LeaderChanged,
    Persist,
    RecordsAppended,
    Respond,
    Send,
    SnapshotLoaded,
)
from tidelog.cluster.quorum.events import Append, Event, PersistCompleted, Resign, Tick, UpgradeVoters
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.schema import ApiMessage
from tidelog.storage.disk.errors import is_descriptor_shortage
from tidelog.storage.log.flush import FlushPlan

logger = logging.getLogger(__name__)

Turn: TypeAlias = Callable[[], None]

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})

FULL_DISK_PAUSE_S: Final = 0.5
"""How often it is looked whether there is room for a new quorum-state."""

RESIGN_S: Final = 1.0
"""How long a resignation may take on the disk."""


class QuorumMachine(Protocol):
    """What is driven: tidelog.cluster.quorum.quorum.Quorum, or a script in a test."""

    @property
    def deadline_ms(self) -> int | None:
        """When `Tick` is wanted next."""

    @property
    def kraft_version(self) -> int:
        """In which version quorum-state is written."""

    @property
    def voter_ids(self) -> Iterable[BrokerId]:
        """The voters, for quorum-state of version 0."""

    def upgrade_refusal(self, epoch: LeaderEpoch) -> str | None:
        """Why `UpgradeVoters` would be refused, None when it would not."""

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """What an event leads to."""


class QuorumListener(Protocol):
    """Who hears what the quorum decides; called within a turn."""

    def leader_changed(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """The epoch or its leader is another one."""

    def committed(self, offset: Offset) -> None:
        """The log is committed up to `offset`."""

    def snapshot_loaded(self, snapshot_id: SnapshotId) -> None:
        """The log now begins with a snapshot that another node wrote."""


class RequestSender(Protocol):
    """Who carries requests to other nodes and reports each answer, or its absence, once."""

    def send(self, request: Send) -> None:
        """Send, or say that it failed; never waits."""


class RaftDriver:
    """See the module; `start`, then `post` and `in_turn`, then `stop`."""

    def __init__(
        self,
        machine: QuorumMachine,
        log: MetadataLog,
        state_file: QuorumStateFile,
        *,
        listener: QuorumListener,
        sender: RequestSender,
        clock: Clock,
        executor: Executor,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.failure: BaseException | None = None
        self._machine = machine
        self._log = log
        self._state_file = state_file
        self._listener = listener
        self._sender = sender
        self._clock = clock
        self._executor = executor
        self._on_fatal = on_fatal
        self._work: deque[Event | Turn] = deque()
        self._effects: list[Effect] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None
        self._stopping = False
        self._waits_for_room = False
        self._fault: Exception | None = None

    # ---- what others call

    def start(self) -> None:
        """Begin; elections run from now on."""
        self._task = asyncio.create_task(self._run(), name="raft-driver")
        self.post(Tick())

    def post(self, event: Event) -> None:
        """Have the state machine take an event, in order."""
        self._work.append(event)
        self._wake.set()

    def in_turn(self, turn: Turn) -> None:
        """Have `turn` called when nothing is being made durable; it may call `append_now`."""
        self._work.append(turn)
        self._wake.set()

    def append_now(self, records: list[bytes], epoch: LeaderEpoch) -> RecordsAppended:
        """Within a turn: put records into the log as one batch.

        Errors: KafkaError NOT_CONTROLLER when this node does not lead `epoch` any more, or gives that up
        because its disk has no room, and what else keeps the log from taking them. Nothing has changed then.
        """
        context = object()
        return self._appended(Append(records, epoch, context), context)

    @property
    def kraft_version(self) -> int:
        """0: voters are static, 1: they stand in the log."""
        return self._machine.kraft_version

    def upgrade_refusal(self, epoch: LeaderEpoch) -> str | None:
        """Why the voters cannot become dynamic now; None when they can."""
        return self._machine.upgrade_refusal(epoch)

    def upgrade_voters_now(self, epoch: LeaderEpoch) -> RecordsAppended:
        """Within a turn: write the static voters into the log, which makes them dynamic.

        Errors: as of `append_now`, and NOT_CONTROLLER for whatever else `upgrade_refusal` says.
        """
        context = object()
        return self._appended(UpgradeVoters(epoch, context), context)

    def _appended(self, event: Append | UpgradeVoters, context: object) -> RecordsAppended:
        outcome: RecordsAppended | None = None
        try:
            effects = self._machine.step(event, self._clock.monotonic_ms())
        except KafkaError as error:
            if not self._others_may_have_room(error):
                raise
            logger.error("the metadata log takes no records, so others shall lead: %s", error)
            self.give_up()
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        except Exception as error:
            # Nobody knows what is in the log now, whatever the caller makes of it.
            self._fault = error
            raise
        for effect in effects:
            if isinstance(effect, RecordsAppended) and effect.context is context:
                outcome = effect
            elif isinstance(effect, AppendRejected) and effect.context is context:
                raise append_error(effect)
            else:
                self._effects.append(effect)
        assert outcome is not None, "an append is answered in its own step"
        return outcome

    def _others_may_have_room(self, error: KafkaError) -> bool:
        """Whether the log was refused by its disk, and there are others to lead.

        A leader without room would keep everybody from changing anything for as long as it lives.
        """
        return error.code is ErrorCode.KAFKA_STORAGE_ERROR and len(tuple(self._machine.voter_ids)) > 1

    def fail(self, error: BaseException) -> None:
        """End now: something that must not fail has failed outside of a turn."""
        if self._task is not None:
            self._task.cancel()
        if self.failure is None:
            self._end(error)

    def give_up(self) -> None:
        """Lead no more, if this node leads; it may be elected again."""
        self.post(Resign())

    async def resign(self) -> None:
        """Give up leadership, if this node leads, and ask the others to elect; returns once that is sent."""
        task = self._task
        if task is None or task.done():
            return
        self.post(Resign())
        given_up = asyncio.Event()
        self.in_turn(given_up.set)
        waiting = asyncio.create_task(given_up.wait())
        await asyncio.wait([waiting, task], timeout=RESIGN_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def stop(self, *, at_once: bool = False) -> None:
        """End when what is being made durable is so; `at_once`: as a crash would."""
        task, self._task = self._task, None
        self._stopping = True
        self._wake.set()
        if task is not None:
            if at_once:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._cancel_timer()

    # ---- the task

    async def _run(self) -> None:
        try:
            while not self._stopping:
                if not self._work:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                self._take_turn()
                fault = self._fault or self._log.failure
                if fault is not None:
                    raise fault
                while self._effects:
                    await self._perform()
                self._arm_timer()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._end(error)
            if not isinstance(error, Exception):
                raise

    def _take_turn(self) -> None:
        """Step everything that waits now; what it adds itself is for the next turn."""
        for _ in range(len(self._work)):
            work = self._work.popleft()
            if not callable(work):
                self._step(work)
                continue
            self._notice_time()
            if any(isinstance(effect, LeaderChanged) for effect in self._effects):
                # Who takes a turn must have heard of it: no command is decided in an office that is lost.
                self._work.appendleft(work)
                return
            work()

    def _notice_time(self) -> None:
        """After a freeze the machine may lead no more, which it finds out by the clock only."""
        due_ms = self._machine.deadline_ms
        if due_ms is not None and due_ms <= self._clock.monotonic_ms():
            self._step(Tick())

    def _step(self, event: Event) -> None:
        self._effects += self._machine.step(event, self._clock.monotonic_ms())

    async def _perform(self) -> None:
        """Do all effects in order; everything that is to be durable is made so at the first Persist."""
        effects, self._effects = self._effects, []
        tickets = [effect.ticket for effect in effects if isinstance(effect, Persist)]
        is_durable = False
        for effect in effects:
            if not isinstance(effect, Persist):
                self._do(effect)
            elif not is_durable:
                await self._persist([each for each in effects if isinstance(each, Persist)])
                is_durable = True
        for ticket in tickets:
            self._step(PersistCompleted(ticket))

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._sender.send(effect)
        elif isinstance(effect, Respond):
            respond(effect.source, effect.message)
        elif isinstance(effect, HighWatermark):
            self._listener.committed(effect.offset)
        elif isinstance(effect, LeaderChanged):
            self._listener.leader_changed(effect.epoch, effect.leader_id)
        elif isinstance(effect, SnapshotLoaded):
            self._listener.snapshot_loaded(effect.snapshot_id)
        else:
            raise AssertionError(f"nobody asked for {effect}")

    async def _persist(self, wanted: list[Persist]) -> None:
        records = [each.record for each in wanted if each.record is not None]
        plan = self._log.flush_plan() if any(each.flush_to is not None for each in wanted) else None
        kraft_version, voters = self._machine.kraft_version, tuple(self._machine.voter_ids)

        def make_durable() -> bool:
            if records and not self._is_written(records[-1], kraft_version, voters):
                return False
            return plan is None or self._is_synced(plan)

        try:
            loop = asyncio.get_running_loop()
            while not await loop.run_in_executor(self._executor, make_durable):
                await asyncio.sleep(FULL_DISK_PAUSE_S)
                if self._stopping:
                    raise asyncio.CancelledError
        except (OSError, KafkaError) as error:
            raise self._log.sync_failed(error) from error
        if plan is not None:
            self._log.flushed(plan)

    def _is_written(self, record: QuorumRecord, kraft_version: int, voters: tuple[BrokerId, ...]) -> bool:
        """Write the record; False when the disk has no room for it, and the old one is still there.

        Without it this node votes for nobody and follows nobody, but what it knows can be read.
        """
        try:
            self._state_file.write(record, kraft_version=kraft_version, voters=voters)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            level = logging.DEBUG if self._waits_for_room else logging.ERROR
            logger.log(level, "no part in the metadata quorum is taken until there is room: %s", error)
            self._waits_for_room = True
            return False
        self._waits_for_room = False
        return True

    def _is_synced(self, plan: FlushPlan) -> bool:
        """Make the log durable; False when there was no descriptor to sync with."""
        try:
            plan.run()
        except OSError as error:
            if not is_descriptor_shortage(error):
                raise
            level = logging.DEBUG if self._waits_for_room else logging.WARNING
            logger.log(level, "the metadata log is not synced yet: %s", error)
            self._waits_for_room = True
            return False
        self._waits_for_room = False
        return True

    def _end(self, error: BaseException) -> None:
        logger.critical("the metadata quorum on this node has ended", exc_info=error)
        self.failure = error
        self._stopping = True
        self._work.clear()
        self._effects.clear()
        self._cancel_timer()
        self._on_fatal(error)

    # ---- time

    def _arm_timer(self) -> None:
        due_ms = self._machine.deadline_ms
        if due_ms == self._timer_due_ms and self._timer is not None:
            return
        self._cancel_timer()
        if due_ms is not None and not self._stopping:
            delay_ms = max(0, due_ms - self._clock.monotonic_ms())
            self._timer_due_ms = due_ms
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.post(Tick())

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def respond(source: object, message: ApiMessage) -> None:
    """Answer the request that waits in `source`, a future, if anybody still does."""
    assert isinstance(source, asyncio.Future), f"{source!r} waits for no answer"
    waiting: asyncio.Future[Any] = source
    if not waiting.done():
        waiting.set_result(message)


def append_error(refused: AppendRejected) -> KafkaError:
    """What whoever wanted to append hears."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, refused.reason)
