"""The events and callbacks that wait for the quorum's state machine, and the effects of its steps.

    events and callbacks are queued -> the driver handles them in order -> step, step, ... -> effects for it

The metadata store appends to the log with callbacks: a callback may call `append`. Its records share the
fsync of the events that waited with the callback. No other code calls the state machine.

Bounds: requests of other nodes are bounded by the request channel of their listener, and by the state
machine. I/O: none, except the log that the state machine owns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from tidelog.base.clock import Clock
from tidelog.cluster.quorum.effects import AppendRejected, Effect, LeaderChanged, RecordsAppended
from tidelog.cluster.quorum.events import Append, Event, Resign, Tick, UpgradeVoters
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch

logger = logging.getLogger(__name__)

Callback: TypeAlias = Callable[[], None]


class QuorumMachine(Protocol):
    """The state machine, `tidelog.cluster.quorum.quorum.Quorum`; tests replace it by a script."""

    @property
    def deadline_ms(self) -> int | None:
        """The monotonic time of the next `Tick`, None if no timer is needed."""

    @property
    def kraft_version(self) -> int:
        """The version of quorum-state."""

    @property
    def voter_ids(self) -> Iterable[BrokerId]:
        """The voters, which version 0 of quorum-state contains."""

    def upgrade_rejection(self, epoch: LeaderEpoch) -> str | None:
        """Return the reason why `UpgradeVoters` would be refused; None if it would be accepted."""

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle an event and return its effects in order."""


class MachineSteps:
    """Owns the state machine: queues its events and callbacks, and collects the effects of its steps."""

    def __init__(self, machine: QuorumMachine, clock: Clock) -> None:
        self.fault: Exception | None = None
        """The failure of an append, after which the contents of the log are unknown."""
        self._machine = machine
        self._clock = clock
        self._queue: deque[Event | Callback] = deque()
        self._effects: list[Effect] = []
        self._wake_event = asyncio.Event()

    # ---- for the other parts of the node

    def post(self, event: Event) -> None:
        """Queue an event for the state machine."""
        self._queue.append(event)
        self._wake_event.set()

    def schedule(self, callback: Callback) -> None:
        """Call `callback` in the driver's task when no fsync is in progress; it may call `append`."""
        self._queue.append(callback)
        self._wake_event.set()

    def append(self, records: list[bytes], epoch: LeaderEpoch) -> RecordsAppended:
        """Append records to the log as one batch; only within a callback.

        Errors: KafkaError NOT_CONTROLLER if this node is no longer the leader of `epoch`, or resigns because
        its disk is full; any other error of the append. The log is then unchanged.
        """
        context = object()
        return self._append(Append(records, epoch, context), context)

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 0 if the voters are static, 1 if they are stored in the log."""
        return self._machine.kraft_version

    def upgrade_rejection(self, epoch: LeaderEpoch) -> str | None:
        """Return the reason why the voters cannot become dynamic now; None if they can."""
        return self._machine.upgrade_rejection(epoch)

    def upgrade_voters(self, epoch: LeaderEpoch) -> RecordsAppended:
        """Append the static voters to the log, which makes them dynamic; only within a callback.

        Errors: those of `append`, and NOT_CONTROLLER for any reason of `upgrade_rejection`.
        """
        context = object()
        return self._append(UpgradeVoters(epoch, context), context)

    def resign(self) -> None:
        """Resign if this node is the leader; it may be elected again."""
        self.post(Resign())

    # ---- for the driver

    async def wait(self) -> None:
        """Wait until there is an event or a callback, or `wake` is called."""
        if not self._queue:
            self._wake_event.clear()
            await self._wake_event.wait()

    def wake(self) -> None:
        """End `wait`."""
        self._wake_event.set()

    def clear(self) -> None:
        """Drop all waiting events and callbacks, and all effects."""
        self._queue.clear()
        self._effects.clear()

    def step(self, event: Event) -> None:
        """Handle an event at once, and collect its effects."""
        self._effects += self._machine.step(event, self._clock.monotonic_ms())

    def run(self) -> None:
        """Handle all events and callbacks in the queue; those that are added now wait for the next call."""
        for _ in range(len(self._queue)):
            entry = self._queue.popleft()
            if not callable(entry):
                self.step(entry)
                continue
            self._tick_if_late()
            if any(isinstance(effect, LeaderChanged) for effect in self._effects):
                # The change is handled before the callback: a former leader must not handle a command.
                self._queue.appendleft(entry)
                return
            entry()

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def deadline_ms(self) -> int | None:
        """The monotonic time of the next `Tick`, None if no timer is needed."""
        return self._machine.deadline_ms

    @property
    def ms_to_deadline(self) -> int | None:
        """The time until the next `Tick`, at least 0; None if no timer is needed."""
        deadline_ms = self._machine.deadline_ms
        return None if deadline_ms is None else max(0, deadline_ms - self._clock.monotonic_ms())

    @property
    def voter_ids(self) -> tuple[BrokerId, ...]:
        """The voters, which version 0 of quorum-state contains."""
        return tuple(self._machine.voter_ids)

    def _tick_if_late(self) -> None:
        """Tick at once if the timer is late: after a freeze, the leader may have lost its leadership."""
        if self.ms_to_deadline == 0:
            self.step(Tick())

    def _append(self, event: Append | UpgradeVoters, context: object) -> RecordsAppended:
        """Handle an event that appends records; return its effect of `context`. Errors: those of `append`."""
        outcome: RecordsAppended | None = None
        try:
            effects = self._machine.step(event, self._clock.monotonic_ms())
        except KafkaError as error:
            if not self._can_others_lead(error):
                raise
            logger.error("Cannot write the metadata log: %s; resigning as the leader", error)
            self.resign()
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        except Exception as error:
            # Even if the caller handles the error, the contents of the log are unknown now.
            self.fault = error
            raise
        for effect in effects:
            if isinstance(effect, RecordsAppended) and effect.context is context:
                outcome = effect
            elif isinstance(effect, AppendRejected) and effect.context is context:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, effect.reason)
            else:
                self._effects.append(effect)
        assert outcome is not None, "the step of an append did not return its outcome"
        return outcome

    def _can_others_lead(self, error: KafkaError) -> bool:
        """Return whether the disk refused an append, and there are other voters.

        A leader with a full disk would block every change of the metadata.
        """
        return error.code is ErrorCode.KAFKA_STORAGE_ERROR and len(self.voter_ids) > 1
