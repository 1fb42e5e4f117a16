"""A broker's life in its cluster, as the controller hears of it: registration, heartbeats, shutdown.

    NOT_RUNNING -> STARTING            start
    STARTING -> RECOVERY               the controller says that this broker has the metadata
    RECOVERY -> RUNNING                it is not fenced any more, having said that it is ready
    RUNNING -> CONTROLLED_SHUTDOWN     it asks to stop; its leaderships move away
    any -> SHUTTING_DOWN               the controller agrees, nobody answers in time, or it just stops

One task asks the controller, one thing at a time: registration until that succeeds, then heartbeats.
What fails is repeated after a growing pause, never at once. A heartbeat that is refused (the broker
was unregistered, another process has its id) is repeated too, as in Kafka: only a new start
registers anew. Fatal are a registration that does not succeed in time, and a directory failure
that the controller does not hear of in time.

Source: KIP-631, KIP-841, KIP-858; BrokerLifecycleManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.registration.broker_registration import NO_EPOCH
from tidelog.clients.transport.backoff import ExponentialBackoff
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

_CAUGHT_UP_PAUSE_MS: Final = 10
_SHUTDOWN_PAUSE_MS: Final = 10
_FIRST_BACKOFF_MS: Final = 100
_READY_SHARE: Final = 10
"""How many heartbeats a broker that is fenced and ready sends in the time of one."""


class BrokerState(Enum):
    """See the module."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTTING_DOWN = "shutting down"


_LEGAL: Final = {
    BrokerState.NOT_RUNNING: {BrokerState.STARTING, BrokerState.SHUTTING_DOWN},
    BrokerState.STARTING: {BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN},
    BrokerState.RECOVERY: {BrokerState.RUNNING, BrokerState.SHUTTING_DOWN},
    BrokerState.RUNNING: {BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN},
    BrokerState.CONTROLLED_SHUTDOWN: {BrokerState.SHUTTING_DOWN},
    BrokerState.SHUTTING_DOWN: {BrokerState.SHUTTING_DOWN},
}


class Channel(Protocol):
    """How requests reach the active controller; `ControllerChannel` is one."""

    async def request(self, message: ApiMessage, response: type[ResponseT], *, deadline: int) -> ResponseT:
        """The answer; KafkaError when there is none until the deadline."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """Kafka's keys: broker.heartbeat.interval.ms, broker.session.timeout.ms and so on."""

    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    initial_registration_timeout_ms: int = 60_000
    log_dir_failure_timeout_ms: int = 30_000


class BrokerLifecycle:
    """See the module; `start`, then the waits in their order, `close` at the end."""

    def __init__(
        self,
        channel: Channel,
        registration: BrokerRegistrationRequest,
        settings: LifecycleSettings,
        *,
        clock: Clock,
        rng: Randomness,
        metadata_offset: Callable[[], Offset],
        on_fatal: Callable[[str], None],
    ) -> None:
        """`metadata_offset`: of the last record this broker knows. `on_fatal` stops the node."""
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_EPOCH
        self.confirmed_ms = -(2**62)
        """When the last heartbeat was sent of which the controller said that this broker is not fenced."""
        self._channel = channel
        self._registration = registration
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._metadata_offset = metadata_offset
        self._on_fatal = on_fatal
        self._backoff = ExponentialBackoff(_FIRST_BACKOFF_MS, settings.session_timeout_ms, jitter=0.02)
        self._failures = 0
        self._last_failure = "no answer"
        self._is_registered = False
        self._is_ready = False
        self._heard_of_shutdown = False
        self._offline_dirs: dict[UUID, bool] = {}
        self._cordoned_dirs: tuple[UUID, ...] | None = None
        self._now = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._registered: asyncio.Future[int] = loop.create_future()
        self._caught_up: asyncio.Future[None] = loop.create_future()
        self._unfenced: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []

    # ---- starting

    def start(self) -> None:
        """Begin to register."""
        self._transition(BrokerState.STARTING)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="broker-lifecycle")
        self._after(self._settings.initial_registration_timeout_ms, self._registration_timed_out)

    async def registered(self) -> int:
        """Wait for the registration; the broker epoch. KafkaError when it does not succeed in time."""
        return await asyncio.shield(self._registered)

    async def caught_up(self) -> None:
        """Wait until the controller says that this broker has the metadata."""
        await asyncio.shield(self._caught_up)

    async def unfenced(self) -> None:
        """Say that this broker is ready to serve, and wait until it is let in."""
        self._is_ready = True
        self._now.set()
        await asyncio.shield(self._unfenced)

    def directory_failed(self, directory_id: UUID) -> None:
        """Tell the controller that a log directory is offline; fatal when it does not hear of it in time."""
        if self._offline_dirs.setdefault(directory_id, False):
            return
        if self._is_registered:
            self._now.set()

        def check() -> None:
            if not self._offline_dirs[directory_id]:
                self._fatal(f"the controller could not be told that log directory {directory_id} is offline")

        self._after(self._settings.log_dir_failure_timeout_ms, check)

    def directories_cordoned(self, directory_ids: Iterable[UUID]) -> None:
        """Tell the controller which log directories take no new partitions (KIP-1066)."""
        cordoned = tuple(sorted(directory_ids))
        if cordoned == (self._cordoned_dirs or ()):
            return
        self._cordoned_dirs = cordoned
        if self._is_registered:
            self._now.set()

    # ---- stopping

    async def shut_down(self, timeout_ms: int) -> bool:
        """Have the leaderships moved away and wait for that; False when it was not done in time.

        A broker that is not running has none and just stops.
        """
        if self.state is not BrokerState.RUNNING:
            self._end()
            return True
        self._transition(BrokerState.CONTROLLED_SHUTDOWN)
        self._now.set()
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), timeout_ms / 1000)
        except TimeoutError:
            logger.warning("the controller did not let this broker go within %d ms", timeout_ms)
            return False
        return True

    async def close(self) -> None:
        """Say nothing more to the controller."""
        self._end()
        for timer in self._timers:
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- the task

    async def _run(self) -> None:
        while not self._is_over:
            self._now.clear()
            try:
                delay_ms = await (self._heartbeat() if self._is_registered else self._register())
                self._failures = 0
            except Exception as error:
                delay_ms = self._failed(error)
            if delay_ms and not self._is_over:
                await self._pause(delay_ms)

    def _failed(self, error: Exception) -> int:
        """The time until the next attempt."""
        self._last_failure = str(error)
        what = "heartbeat" if self._is_registered else "registration"
        bug = None if isinstance(error, KafkaError) else error
        # No controller yet, or none any more: the quorum says enough about that.
        is_usual = isinstance(error, KafkaError) and error.code is ErrorCode.REQUEST_TIMED_OUT
        level = logging.INFO if is_usual else logging.WARNING
        broker = self._registration.broker_id
        logger.log(level, "%s of broker %d failed: %s", what, broker, error, exc_info=bug)
        self._failures += 1
        self._now.clear()
        return self._backoff.delay_ms(self._failures - 1, self._rng)

    async def _pause(self, delay_ms: int) -> None:
        try:
            await asyncio.wait_for(self._now.wait(), delay_ms / 1000)
        except TimeoutError:
            return

    async def _ask(self, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        # Half a session, so that there is time for another attempt before the session is over.
        deadline = self._clock.monotonic_ms() + self._settings.session_timeout_ms // 2
        answer = await self._channel.request(message, response, deadline=deadline)
        code: int = getattr(answer, "error_code", 0)
        if code:
            raise failure(code, "the controller's answer")
        return answer

    async def _register(self) -> int:
        answer = await self._ask(self._registration, BrokerRegistrationResponse)
        self.broker_epoch = answer.broker_epoch
        self._is_registered = True
        logger.info("broker %d registered, epoch %d", self._registration.broker_id, self.broker_epoch)
        if not self._registered.done():
            self._registered.set_result(self.broker_epoch)
        return 0

    async def _heartbeat(self) -> int:
        """Send one; the time until the next."""
        told = tuple(self._offline_dirs)
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.CONTROLLED_SHUTDOWN,
            offline_log_dirs=told,
            cordoned_log_dirs=self._cordoned_dirs,
        )
        sent_ms = self._clock.monotonic_ms()
        answer = await self._ask(request, BrokerHeartbeatResponse)
        if not answer.is_fenced:
            self.confirmed_ms = sent_ms
        self._offline_dirs.update(dict.fromkeys(told, True))
        return self._follow(answer, asked_to_stop=request.want_shut_down)

    def _follow(self, answer: BrokerHeartbeatResponse, *, asked_to_stop: bool) -> int:
        """Go on as the controller says; the time until the next heartbeat."""
        interval_ms = self._settings.heartbeat_interval_ms
        if self._is_ready and answer.is_fenced:
            # It is let in as soon as it has heard that it is fenced.
            interval_ms = max(interval_ms // _READY_SHARE, _CAUGHT_UP_PAUSE_MS)
        if self.state is BrokerState.STARTING:
            if not answer.is_caught_up:
                return _CAUGHT_UP_PAUSE_MS
            self._transition(BrokerState.RECOVERY)
            _resolve(self._caught_up)
            if answer.is_fenced:
                return _CAUGHT_UP_PAUSE_MS
        if self.state is BrokerState.RECOVERY and not answer.is_fenced:
            self._transition(BrokerState.RUNNING)
            _resolve(self._unfenced)
        elif self.state is BrokerState.CONTROLLED_SHUTDOWN and asked_to_stop:
            if answer.should_shut_down:
                self._end()
            elif not self._heard_of_shutdown:
                self._heard_of_shutdown = True
                return _SHUTDOWN_PAUSE_MS
        return interval_ms

    # ---- ends

    @property
    def _is_over(self) -> bool:
        return self.state is BrokerState.SHUTTING_DOWN

    def _registration_timed_out(self) -> None:
        if self._registered.done():
            return
        text = (
            f"broker {self._registration.broker_id} could not register within "
            f"{self._settings.initial_registration_timeout_ms} ms: {self._last_failure}"
        )
        self._registered.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
        self._registered.exception()
        self._fatal(text)

    def _fatal(self, text: str) -> None:
        if not self._is_over:
            logger.error("%s", text)
            self._end()
            self._on_fatal(text)

    def _end(self) -> None:
        """Stop asking; whoever still waits hears that the broker stops."""
        if self._is_over:
            return
        self._transition(BrokerState.SHUTTING_DOWN)
        self._now.set()
        for waited_for in (self._registered, self._caught_up, self._unfenced):
            if not waited_for.done():
                waited_for.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is stopping"))
                waited_for.exception()
        _resolve(self._ended)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_ms / 1000, action))

    def _transition(self, state: BrokerState) -> None:
        assert state in _LEGAL[self.state], f"{self.state} -> {state}"
        logger.info("broker %d: %s -> %s", self._registration.broker_id, self.state.value, state.value)
        self.state = state


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
