"""Registration, heartbeats and controlled shutdown, with a scripted controller."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tests.support.configs import lifecycle_settings
from tests.support.states import state_of
from tests.support.waiting import TIMEOUT_S, eventually, remains
from tidelog.base.clock import SystemClock
from tidelog.broker.config.listeners import Listener, SecurityProtocol
from tidelog.broker.registration.broker_lifecycle import (
    BrokerLifecycle,
    BrokerLifecyclePorts,
    BrokerState,
    LifecycleSettings,
)
from tidelog.broker.registration.broker_registration import (
    NO_EPOCH,
    previous_broker_epoch,
    registration_request,
)
from tidelog.broker.registration.controlled_shutdown import QUORUM_OUTAGE_MS
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.storage.disk.checkpoints import CleanShutdownMarker
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

DIRECTORY = UUID(int=7)
EPOCH = 40
QUICK = lifecycle_settings(broker_heartbeat_interval_ms=5, broker_session_timeout_ms=600_000)


class Controller:
    """A controller that unfences the broker when it has applied offset EPOCH."""

    def __init__(self) -> None:
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.registrations: list[BrokerRegistrationRequest] = []
        self.refusals: list[ErrorCode | KafkaError] = []
        self.agrees_to_shutdown = True
        self.is_silent = False
        self.ignored: list[Any] = []
        """The requests while it was silent."""
        self.is_holding = False
        self._hold: asyncio.Event | None = None

    def hold_next_request(self) -> asyncio.Event:
        """Respond to the next request when the returned event is set."""
        self._hold = asyncio.Event()
        return self._hold

    async def request(self, message: Any, response: type[Any], *, deadline: int) -> Any:
        if self.is_silent:
            self.ignored.append(message)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "silence")
        if self._hold is not None:
            self.is_holding = True
            hold, self._hold = self._hold, None
            await hold.wait()
        refusal = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        if isinstance(refusal, KafkaError):
            raise refusal
        if isinstance(message, BrokerRegistrationRequest):
            self.registrations.append(message)
            return BrokerRegistrationResponse(error_code=refusal, broker_epoch=-1 if refusal else EPOCH)
        assert isinstance(message, BrokerHeartbeatRequest)
        self.heartbeats.append(message)
        is_caught_up = message.current_metadata_offset >= message.broker_epoch
        return BrokerHeartbeatResponse(
            error_code=refusal,
            is_caught_up=is_caught_up,
            is_fenced=message.want_fence or not is_caught_up,
            should_shut_down=message.want_shut_down and self.agrees_to_shutdown,
        )


class Node:
    """A lifecycle with its controller and its node."""

    def __init__(self, settings: LifecycleSettings) -> None:
        self.controller = Controller()
        self.metadata_offset = EPOCH
        self.is_fenced_in_metadata = False
        self.can_be_reached = True
        self.probes = 0
        self.fatal: list[str] = []
        self.lifecycle = BrokerLifecycle(
            registration_request(
                node_id=3,
                cluster_id="cluster",
                incarnation_id=UUID(int=5),
                advertised=[Listener("PLAINTEXT", "host3", 9092, SecurityProtocol.PLAINTEXT)],
                rack="b",
                directory_ids=[UUID(int=9), DIRECTORY],
                previous_broker_epoch=12,
            ),
            settings,
            BrokerLifecyclePorts(
                channel=self.controller,
                clock=SystemClock(),
                rng=random.Random(1),
                metadata_offset=lambda: self.metadata_offset,
                is_fenced=lambda epoch: epoch == EPOCH and self.is_fenced_in_metadata,
                probe_quorum=self._probe_quorum,
                on_fatal=self.fatal.append,
            ),
        )

    async def _probe_quorum(self) -> bool:
        self.probes += 1
        return self.can_be_reached


@asynccontextmanager
async def node(
    settings: LifecycleSettings = QUICK, prepare: Callable[[Node], None] = lambda node: None
) -> AsyncIterator[Node]:
    running = Node(settings)
    prepare(running)
    running.lifecycle.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield running
    finally:
        await running.lifecycle.close()


@asynccontextmanager
async def running_node(settings: LifecycleSettings = QUICK) -> AsyncIterator[Node]:
    async with node(settings) as running:
        await running.lifecycle.wait_until_registered()
        await running.lifecycle.become_unfenced()
        yield running


async def test_kip_1066_cordoned_and_uncordoned_directories_are_reported() -> None:
    async with running_node(
        lifecycle_settings(broker_heartbeat_interval_ms=60_000, broker_session_timeout_ms=600_000)
    ) as running:
        beats = running.controller.heartbeats
        assert beats[-1].cordoned_log_dirs is None
        running.lifecycle.report_cordoned_directories([DIRECTORY])
        await eventually(lambda: beats[-1].cordoned_log_dirs == (DIRECTORY,))
        running.lifecycle.report_cordoned_directories([])
        await eventually(lambda: beats[-1].cordoned_log_dirs == ())


async def test_the_same_registration_is_sent_once_more_and_the_broker_keeps_running() -> None:
    async with running_node() as running:
        running.lifecycle.register_again()
        await eventually(lambda: len(running.controller.registrations) == 2)
        first, second = running.controller.registrations
        assert second == first
        count = len(running.controller.heartbeats)
        await eventually(lambda: len(running.controller.heartbeats) > count + 1)
        assert len(running.controller.registrations) == 2
        assert state_of(running.lifecycle) is BrokerState.RUNNING


async def test_a_registration_that_is_in_progress_is_not_repeated() -> None:
    async with node() as running:
        running.lifecycle.register_again()
        await running.lifecycle.wait_until_registered()
        await eventually(lambda: running.controller.heartbeats)
        assert len(running.controller.registrations) == 1


async def test_a_broker_registers_catches_up_reports_that_it_is_ready_and_is_unfenced() -> None:
    async with node() as running:
        lifecycle = running.lifecycle
        running.metadata_offset = EPOCH - 1
        assert await lifecycle.wait_until_registered() == EPOCH
        assert lifecycle.broker_epoch == EPOCH
        await eventually(lambda: len(running.controller.heartbeats) > 2)
        assert state_of(lifecycle) is BrokerState.STARTING
        running.metadata_offset = EPOCH
        await lifecycle.wait_until_caught_up()
        await eventually(lambda: len(running.controller.heartbeats) > 5)
        assert state_of(lifecycle) is BrokerState.RECOVERY
        assert all(each.want_fence for each in running.controller.heartbeats)
        await lifecycle.become_unfenced()
        assert state_of(lifecycle) is BrokerState.RUNNING
        assert not running.controller.heartbeats[-1].want_fence
        count = len(running.controller.heartbeats)
        await eventually(lambda: len(running.controller.heartbeats) > count + 2)


async def test_a_registration_has_the_id_the_listeners_and_the_previous_epoch() -> None:
    async with running_node() as running:
        [request] = running.controller.registrations
        assert (request.broker_id, request.cluster_id, request.rack) == (3, "cluster", "b")
        assert request.log_dirs == (DIRECTORY, UUID(int=9))
        assert request.previous_broker_epoch == 12
        [listener] = request.listeners
        assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "host3", 9092)
        assert "metadata.version" in {feature.name for feature in request.features}


async def test_a_start_without_delays_needs_no_timer() -> None:
    never = lifecycle_settings(broker_heartbeat_interval_ms=600_000, broker_session_timeout_ms=1_800_000)
    async with node(never) as running:
        await running.lifecycle.wait_until_registered()
        await running.lifecycle.become_unfenced()
        assert await running.lifecycle.shut_down(60_000)


async def test_a_refused_registration_is_sent_again() -> None:
    def refuse(running: Node) -> None:
        running.controller.refusals = [
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"),
        ]

    async with node(prepare=refuse) as running:
        assert await running.lifecycle.wait_until_registered() == EPOCH
        assert len(running.controller.registrations) == 2


async def test_a_registration_that_does_not_succeed_in_time_is_fatal() -> None:
    def refuse(running: Node) -> None:
        running.controller.refusals = [ErrorCode.INCONSISTENT_CLUSTER_ID] * 1000

    settings = lifecycle_settings(initial_broker_registration_timeout_ms=30)
    async with node(settings, refuse) as running:
        with pytest.raises(KafkaError, match="could not register within 30 ms") as error:
            await running.lifecycle.wait_until_registered()
        assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert len(running.fatal) == 1
        assert running.lifecycle.state is BrokerState.SHUTTING_DOWN


@pytest.mark.parametrize(
    "code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.REQUEST_TIMED_OUT]
)
async def test_a_refused_heartbeat_is_repeated_and_is_not_fatal(code: ErrorCode) -> None:
    async with running_node() as running:
        running.controller.refusals = [code]
        count = len(running.controller.heartbeats)
        await eventually(lambda: len(running.controller.heartbeats) > count + 2)
        assert running.lifecycle.state is BrokerState.RUNNING
        assert len(running.controller.registrations) == 1
        assert running.fatal == []


async def test_a_broker_stops_when_the_controller_permits_it() -> None:
    async with running_node() as running:
        running.controller.agrees_to_shutdown = False
        stopping = asyncio.create_task(running.lifecycle.shut_down(60_000))
        await eventually(
            lambda: len([one for one in running.controller.heartbeats if one.want_shut_down]) > 2
        )
        assert state_of(running.lifecycle) is BrokerState.CONTROLLED_SHUTDOWN
        running.controller.agrees_to_shutdown = True
        assert await stopping
        assert state_of(running.lifecycle) is BrokerState.SHUTTING_DOWN
        count = len(running.controller.heartbeats)
        await running.lifecycle.close()
        assert len(running.controller.heartbeats) == count


async def test_a_broker_stops_after_the_timeout_without_permission() -> None:
    async with running_node() as running:
        running.controller.is_silent = True
        assert not await running.lifecycle.shut_down(20)


async def test_a_broker_stops_when_the_metadata_shows_the_permission_that_was_lost() -> None:
    async with running_node() as running:
        controller = running.controller
        controller.is_silent = True
        stopping = asyncio.create_task(running.lifecycle.shut_down(timeout_ms=600_000))
        await eventually(lambda: controller.ignored and controller.ignored[-1].want_shut_down)
        running.is_fenced_in_metadata = True
        assert await stopping
        assert state_of(running.lifecycle) is BrokerState.SHUTTING_DOWN


async def test_metadata_from_before_the_unfencing_does_not_end_a_controlled_shutdown() -> None:
    async with running_node() as running:
        running.controller.agrees_to_shutdown = False
        running.is_fenced_in_metadata = True
        stopping = asyncio.create_task(running.lifecycle.shut_down(timeout_ms=600_000))
        await eventually(lambda: running.controller.heartbeats[-1].want_shut_down)
        await remains(lambda: not stopping.done(), 0.2)
        running.controller.agrees_to_shutdown = True
        assert await stopping


async def test_a_fencing_before_the_shutdown_is_requested_does_not_end_it() -> None:
    """The heartbeat that is in progress when the shutdown begins can unfence the broker again."""
    async with running_node() as running:
        go_on = running.controller.hold_next_request()
        await eventually(lambda: running.controller.is_holding)
        stopping = asyncio.create_task(running.lifecycle.shut_down(timeout_ms=600_000))
        await eventually(lambda: running.lifecycle.state is BrokerState.CONTROLLED_SHUTDOWN)
        running.is_fenced_in_metadata = True
        await remains(lambda: not stopping.done(), 0.2)
        running.is_fenced_in_metadata = False
        go_on.set()
        assert await stopping
        assert running.controller.heartbeats[-1].want_shut_down


async def test_a_broker_stops_after_500_ms_if_no_controller_can_be_connected() -> None:
    async with running_node() as running:
        running.controller.is_silent = True
        running.can_be_reached = False
        began_s = time.monotonic()
        assert not await running.lifecycle.shut_down(timeout_ms=600_000)
        assert QUORUM_OUTAGE_MS <= (time.monotonic() - began_s) * 1000 < 10 * QUORUM_OUTAGE_MS


async def test_a_shutdown_during_an_election_of_1_s_is_awaited() -> None:
    async with running_node() as running:
        running.controller.is_silent = True
        stopping = asyncio.create_task(running.lifecycle.shut_down(timeout_ms=600_000))
        await remains(lambda: not stopping.done(), 1.0)
        assert running.probes
        running.controller.is_silent = False
        assert await stopping


async def test_a_short_outage_of_the_controllers_does_not_end_a_controlled_shutdown() -> None:
    async with running_node() as running:
        running.controller.is_silent = True
        running.can_be_reached = False
        stopping = asyncio.create_task(running.lifecycle.shut_down(timeout_ms=600_000))
        await eventually(lambda: running.probes)
        running.can_be_reached = True
        await remains(lambda: not stopping.done(), 2 * QUORUM_OUTAGE_MS / 1000)
        running.controller.is_silent = False
        assert await stopping


async def test_controllers_are_not_probed_while_they_respond() -> None:
    async with running_node() as running:
        running.controller.agrees_to_shutdown = False
        running.can_be_reached = False
        stopping = asyncio.create_task(running.lifecycle.shut_down(timeout_ms=600_000))
        await remains(lambda: not stopping.done() and not running.probes, 0.3)
        running.controller.agrees_to_shutdown = True
        assert await stopping


async def test_a_broker_that_was_never_unfenced_stops_without_a_request() -> None:
    async with node() as running:
        await running.lifecycle.wait_until_registered()
        assert await running.lifecycle.shut_down(60_000)
        with pytest.raises(KafkaError):
            await running.lifecycle.become_unfenced()


async def test_offline_directories_are_reported_with_every_heartbeat() -> None:
    async with running_node(lifecycle_settings(broker_heartbeat_interval_ms=600_000)) as running:
        running.lifecycle.report_offline_directory(DIRECTORY)
        await eventually(lambda: running.controller.heartbeats[-1].offline_log_dirs == (DIRECTORY,))
        assert running.fatal == []


async def test_a_directory_failure_that_the_controller_does_not_receive_is_fatal() -> None:
    async with running_node(lifecycle_settings(log_dir_failure_timeout_ms=20)) as running:
        running.controller.is_silent = True
        running.lifecycle.report_offline_directory(DIRECTORY)
        await eventually(lambda: running.fatal)
        assert str(DIRECTORY) in running.fatal[0]


# ---- the previous epoch


def directories(*epochs: int | None) -> tuple[CrashFileSystem, list[str]]:
    fs = CrashFileSystem()
    paths = [f"/data{number}" for number in range(len(epochs))]
    for path, epoch in zip(paths, epochs, strict=True):
        fs.makedirs(path)
        if epoch is not None:
            CleanShutdownMarker(fs, path).write(epoch)
    return fs, paths


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [([8], 8), ([8, 8], 8), ([8, 9], NO_EPOCH), ([8, None], NO_EPOCH), ([None], NO_EPOCH)],
)
def test_the_previous_epoch_is_known_when_all_directories_agree(
    epochs: list[int | None], expected: int
) -> None:
    fs, paths = directories(*epochs)
    assert previous_broker_epoch(fs, paths, paths) == expected


def test_the_previous_epoch_is_unknown_when_a_directory_is_missing() -> None:
    fs, paths = directories(8, 8)
    assert previous_broker_epoch(fs, paths, paths[:1]) == NO_EPOCH
    assert previous_broker_epoch(fs, [], []) == NO_EPOCH
