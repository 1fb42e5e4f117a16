"""The life of a broker in its cluster: registration, heartbeats, controlled shutdown.

    NOT_RUNNING -> STARTING            start
    STARTING -> RECOVERY               the controller reports that this broker has the metadata
    RECOVERY -> RUNNING                the controller has unfenced this broker, which had reported as ready
    RUNNING -> CONTROLLED_SHUTDOWN     this broker requests its shutdown; its leaderships move to others
    any -> SHUTTING_DOWN               the controller agrees, no response in time, or an immediate stop

A controlled shutdown also ends when the metadata shows that the controller has fenced this broker, whose last
response may have been lost, and when no controller can permit it (see `controlled_shutdown`).

One task sends one request at a time: registrations until one succeeds, then heartbeats. A failed request is
repeated after a pause that grows. A heartbeat that is refused (the broker was unregistered, another process
has its id) is repeated too, as in Kafka: only a new start registers again. The same registration is sent once
more when an upgrade of metadata.version lets the controller store more of it. Two failures are fatal: no
successful registration in time, and a failed directory that the controller has not received in time.

Source: KIP-631, KIP-841, KIP-858; BrokerLifecycleManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final, TypeVar
from uuid import UUID

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness
from tidelog.broker.channels.controller_requests import ControllerRequests
from tidelog.broker.registration.broker_registration import NO_EPOCH
from tidelog.broker.registration.controlled_shutdown import ControlledShutdown
from tidelog.broker.registration.directory_reports import DirectoryReports
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
_SHUTDOWN_CHECK_S: Final = 0.05
_FIRST_BACKOFF_MS: Final = 100
_READY_SHARE: Final = 10
"""The number of heartbeats that a fenced and ready broker sends in one interval."""


class BrokerState(Enum):
    """The states of the table above."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTTING_DOWN = "shutting down"


_ALLOWED_TRANSITIONS: Final = {
    BrokerState.NOT_RUNNING: {BrokerState.STARTING, BrokerState.SHUTTING_DOWN},
    BrokerState.STARTING: {BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN},
    BrokerState.RECOVERY: {BrokerState.RUNNING, BrokerState.SHUTTING_DOWN},
    BrokerState.RUNNING: {BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN},
    BrokerState.CONTROLLED_SHUTDOWN: {BrokerState.SHUTTING_DOWN},
    BrokerState.SHUTTING_DOWN: {BrokerState.SHUTTING_DOWN},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """The broker configs of the same names, with underscores instead of dots."""

    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    log_dir_failure_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLifecyclePorts:
    """The ports of a lifecycle to its node.

    `metadata_offset` returns the last metadata offset that this broker has applied, and `is_fenced` whether
    the registration with this epoch is fenced there. `probe_quorum` connects to the controllers, and returns
    whether a majority can be reached. `on_fatal` is called with the reason when the node must stop.
    """

    channel: ControllerRequests
    clock: Clock
    rng: Randomness
    metadata_offset: Callable[[], Offset]
    is_fenced: Callable[[int], bool]
    probe_quorum: Callable[[], Awaitable[bool]]
    on_fatal: Callable[[str], None]


class BrokerLifecycle:
    """One incarnation of a broker: `start`, then the waits in their order, `close` at the end."""

    def __init__(
        self,
        registration: BrokerRegistrationRequest,
        settings: LifecycleSettings,
        ports: BrokerLifecyclePorts,
    ) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_EPOCH
        self.last_unfenced_ms = -(2**62)
        """When this broker sent the last heartbeat whose response reported it as unfenced."""
        self._registration = registration
        self._settings = settings
        self._ports = ports
        self._directories = DirectoryReports()
        self._backoff = ExponentialBackoff(_FIRST_BACKOFF_MS, settings.broker_session_timeout_ms, jitter=0.02)
        self._failures = 0
        self._last_failure = "no response"
        self._is_ready = False
        self._must_register_again = False
        self._shutdown = ControlledShutdown()
        self._next_attempt = asyncio.Event()
        """Set to end the pause before the next request."""
        loop = asyncio.get_running_loop()
        self._registered: asyncio.Future[int] = loop.create_future()
        self._caught_up: asyncio.Future[None] = loop.create_future()
        self._unfenced: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.TimerHandle] = []

    # ---- starting

    def start(self) -> None:
        """Begin to register."""
        self._transition(BrokerState.STARTING)
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(), name="broker-lifecycle"))
        self._call_later(self._settings.initial_broker_registration_timeout_ms, self._on_registration_timeout)

    async def wait_until_registered(self) -> int:
        """Wait for the registration and return the broker epoch. Raise KafkaError if it fails in time."""
        return await asyncio.shield(self._registered)

    async def wait_until_caught_up(self) -> None:
        """Wait until the controller reports that this broker has the metadata."""
        await asyncio.shield(self._caught_up)

    async def become_unfenced(self) -> None:
        """Report this broker as ready, and wait until the controller has unfenced it."""
        self._is_ready = True
        self._next_attempt.set()
        await asyncio.shield(self._unfenced)

    def report_offline_directory(self, directory_id: UUID) -> None:
        """Report a failed log directory; it is fatal if the controller has not received that in time."""
        if not self._directories.add_offline(directory_id):
            return
        self._send_heartbeat_soon()

        def check() -> None:
            if not self._directories.is_received(directory_id):
                timeout_ms = self._settings.log_dir_failure_timeout_ms
                self._fail(
                    f"the controller did not receive within {timeout_ms} ms that log directory "
                    f"{directory_id} is offline"
                )

        self._call_later(self._settings.log_dir_failure_timeout_ms, check)

    def report_cordoned_directories(self, directory_ids: Iterable[UUID]) -> None:
        """Report which log directories accept no new partitions (KIP-1066)."""
        if self._directories.replace_cordoned(directory_ids):
            self._send_heartbeat_soon()

    def register_again(self) -> None:
        """Send the registration once more: the controller can now store more of it."""
        self._must_register_again = self._is_registered
        self._next_attempt.set()

    # ---- stopping

    async def shut_down(self, timeout_ms: int) -> bool:
        """Move the leaderships to other brokers; return False if that is not possible within `timeout_ms`.

        A broker that is not running has none and stops at once.
        """
        if self.state is not BrokerState.RUNNING:
            self._end()
            return True
        self._transition(BrokerState.CONTROLLED_SHUTDOWN)
        self._next_attempt.set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._wait_for_shutdown()
        except TimeoutError:
            logger.warning("Controlled shutdown did not complete within %d ms; stopping anyway", timeout_ms)
            return False

    async def close(self) -> None:
        """Send nothing more to the controller."""
        self._end()
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait_for_shutdown(self) -> bool:
        """Wait for the end of the controlled shutdown; return False if no controller can permit it."""
        ports = self._ports
        outage = asyncio.ensure_future(self._shutdown.wait_for_outage(ports.clock, ports.probe_quorum))
        ends = (self._ended, outage)
        try:
            while not self._ended.done():
                if self._shutdown.is_permitted(is_fenced=ports.is_fenced(self.broker_epoch)):
                    self._end()
                elif outage.done():
                    outage.result()
                    logger.info("Controlled shutdown ends: a majority of the controllers cannot be reached")
                    return False
                await asyncio.wait(ends, timeout=_SHUTDOWN_CHECK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            outage.cancel()
        return True

    # ---- the task

    async def _run(self) -> None:
        while not self._has_ended:
            self._next_attempt.clear()
            try:
                must_register = self._must_register_again or not self._is_registered
                delay_ms = await (self._register() if must_register else self._heartbeat())
                self._failures = 0
            except Exception as error:
                delay_ms = self._on_failure(error)
            if delay_ms and not self._has_ended:
                await self._pause(delay_ms)

    def _on_failure(self, error: Exception) -> int:
        """Log a failed request and return the delay until the next attempt."""
        self._last_failure = str(error)
        request_name = "heartbeat" if self._is_registered else "registration"
        unexpected = None if isinstance(error, KafkaError) else error
        # There is no active controller: the quorum logs that itself.
        is_usual = isinstance(error, KafkaError) and error.code is ErrorCode.REQUEST_TIMED_OUT
        level = logging.INFO if is_usual else logging.WARNING
        broker = self._registration.broker_id
        logger.log(level, "%s of broker %d failed: %s", request_name, broker, error, exc_info=unexpected)
        self._failures += 1
        self._next_attempt.clear()
        return self._backoff.delay_ms(self._failures - 1, self._ports.rng)

    async def _pause(self, delay_ms: int) -> None:
        """Wait for the next attempt, at most `delay_ms`."""
        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._next_attempt.set)
        try:
            await self._next_attempt.wait()
        finally:
            timer.cancel()

    async def _request(self, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        """Return the controller's response. Raise KafkaError if it has an error or does not come in time."""
        # Half a session, so that there is time for another attempt before the session ends.
        deadline = self._ports.clock.monotonic_ms() + self._settings.broker_session_timeout_ms // 2
        self._shutdown.on_request(message)
        result = await self._ports.channel.request(message, response, deadline=deadline)
        self._shutdown.on_response()
        code: int = getattr(result, "error_code", 0)
        if code:
            raise failure(code, "the controller's response")
        return result

    async def _register(self) -> int:
        response = await self._request(self._registration, BrokerRegistrationResponse)
        self.broker_epoch = response.broker_epoch
        self._must_register_again = False
        logger.info("Broker %d registered, epoch %d", self._registration.broker_id, self.broker_epoch)
        if not self._registered.done():
            self._registered.set_result(self.broker_epoch)
        return 0

    async def _heartbeat(self) -> int:
        """Send a heartbeat and return the delay until the next."""
        offline = self._directories.offline
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._ports.metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.CONTROLLED_SHUTDOWN,
            offline_log_dirs=offline,
            cordoned_log_dirs=self._directories.cordoned,
        )
        sent_ms = self._ports.clock.monotonic_ms()
        response = await self._request(request, BrokerHeartbeatResponse)
        if not response.is_fenced:
            self.last_unfenced_ms = sent_ms
        self._directories.on_received(offline)
        return self._apply(response, is_shutdown_requested=request.want_shut_down)

    def _apply(self, response: BrokerHeartbeatResponse, *, is_shutdown_requested: bool) -> int:
        """Change the state according to the response, and return the delay until the next heartbeat."""
        interval_ms = self._settings.broker_heartbeat_interval_ms
        if self._is_ready and response.is_fenced:
            # The controller unfences this broker as soon as a heartbeat shows that it is ready.
            interval_ms = max(interval_ms // _READY_SHARE, _CAUGHT_UP_PAUSE_MS)
        if self.state is BrokerState.STARTING:
            if not response.is_caught_up:
                return _CAUGHT_UP_PAUSE_MS
            self._transition(BrokerState.RECOVERY)
            _set_done(self._caught_up)
            if response.is_fenced:
                return _CAUGHT_UP_PAUSE_MS
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self._transition(BrokerState.RUNNING)
            _set_done(self._unfenced)
        elif self.state is BrokerState.CONTROLLED_SHUTDOWN and is_shutdown_requested:
            if response.should_shut_down:
                self._end()
            elif self._shutdown.on_received():
                return _SHUTDOWN_PAUSE_MS
        return interval_ms

    # ---- ends

    @property
    def _is_registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    @property
    def _has_ended(self) -> bool:
        return self.state is BrokerState.SHUTTING_DOWN

    def _send_heartbeat_soon(self) -> None:
        if self._is_registered:
            self._next_attempt.set()

    def _on_registration_timeout(self) -> None:
        if self._registered.done():
            return
        text = (
            f"broker {self._registration.broker_id} could not register within "
            f"{self._settings.initial_broker_registration_timeout_ms} ms: {self._last_failure}"
        )
        self._registered.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
        self._registered.exception()
        self._fail(text)

    def _fail(self, text: str) -> None:
        """End the lifecycle because of a fatal failure, and report it to the node."""
        if not self._has_ended:
            logger.error("%s", text)
            self._end()
            self._ports.on_fatal(text)

    def _end(self) -> None:
        """Send no more requests; callers that wait get an error."""
        if self._has_ended:
            return
        self._transition(BrokerState.SHUTTING_DOWN)
        self._next_attempt.set()
        for pending in (self._registered, self._caught_up, self._unfenced):
            if not pending.done():
                pending.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is stopping"))
                pending.exception()
        _set_done(self._ended)

    def _call_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_ms / 1000, action))

    def _transition(self, state: BrokerState) -> None:
        assert state in _ALLOWED_TRANSITIONS[self.state], f"{self.state} -> {state}"
        logger.info("Broker %d: %s -> %s", self._registration.broker_id, self.state.value, state.value)
        self.state = state


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
