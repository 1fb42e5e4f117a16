"""Metadata stores for tests: with a disk in memory and an fsync that can be delayed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import metadata_log_config, snapshot_settings
from tests.support.metadata.images import CLUSTER_ID, LISTENER, SeededRandomness
from tests.support.metadata.single_voter_quorum import SingleVoterQuorum
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.base.randomness import new_uuid
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.config.listeners import Listener, SecurityProtocol
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.controller import Controller
from tidelog.broker.metadata.snapshotter import SnapshotSettings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.node.wiring.raft_node import RaftConfig, RaftNode, RaftPorts
from tidelog.broker.raft.log import MetadataLog, MetadataLogConfig
from tidelog.broker.registration.broker_registration import registration_request
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.connecting import ConnectionSettings
from tidelog.cluster.controller.bootstrap import bootstrap_records
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.protocol.messages.broker_registration import BrokerRegistrationResponse
from tidelog.storage.disk.files import FileSystem
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

DIRECTORY = "/data"


class InlineExecutor(Executor):
    """Runs each call at once; while `held`, calls wait for `release`."""

    def __init__(self) -> None:
        self.held = False
        self.run_count = 0
        self._waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            self.run_count += 1
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        if self.held:
            self._waiting.append(run)
        else:
            run()
        return future

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def release(self) -> None:
        self.held = False
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            run()


def open_log(fs: FileSystem) -> MetadataLog:
    return MetadataLog.open(fs, DIRECTORY, metadata_log_config(), ManualClock())


def make_replica(
    fs: FileSystem,
    executor: Executor | None = None,
    *,
    snapshots: SnapshotSettings | None = None,
    log: MetadataLogConfig | None = None,
    slices: Slices | None = None,
) -> RaftNode:
    """Return a replica that is the only voter, not started."""
    clock = ManualClock()
    return RaftNode(
        RaftConfig(
            node_id=1,
            cluster_id=CLUSTER_ID,
            directory=DIRECTORY,
            snapshots=snapshots or snapshot_settings(),
            log=log or metadata_log_config(),
            listeners=(),
        ),
        RaftPorts(
            fs=fs,
            clock=clock,
            environment=SystemEnvironment(),
            connections=ConnectionSettings(
                client_id="1", max_response_bytes=1 << 20, request_timeout_ms=1000, setup_timeout_ms=1000
            ),
            executor=executor or InlineExecutor(),
            slices=slices or Slices(clock),
        ),
        create_machine=lambda metadata_log, record: SingleVoterQuorum(1, metadata_log, record),
        first_records=lambda: bootstrap_records(1),
        on_fatal=lambda error: None,
    )


async def start_replica(replica: RaftNode) -> RaftNode:
    """Start the replica and return it when it is the active controller."""
    replica.start()
    store = replica.store
    await eventually(lambda: store.active_epoch is not None or store.failure is not None)
    if store.failure is not None:
        raise store.failure
    return replica


@asynccontextmanager
async def running_store(
    fs: FileSystem | None = None,
    executor: Executor | None = None,
    *,
    registered: bool = True,
    slices: Slices | None = None,
) -> AsyncIterator[MetadataStore]:
    """Yield the store of an active controller; with `registered` broker 1 is unfenced."""
    replica = make_replica(fs or CrashFileSystem(), executor, slices=slices)
    async with asyncio.timeout(TIMEOUT_S):
        await start_replica(replica)
        if registered:
            await register_node(replica.store)
        try:
            yield replica.store
        finally:
            await replica.stop()


async def register_node(store: MetadataStore, incarnation: int = 1) -> int:
    chance = SeededRandomness(incarnation)
    request = registration_request(
        node_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=new_uuid(chance),
        advertised=[Listener(LISTENER, "host1", 9093, SecurityProtocol.PLAINTEXT)],
        rack=None,
        directory_ids=[new_uuid(chance)],
    )
    channel = channel_of(store)
    deadline = ManualClock().now_ms + 10_000
    registered = await channel.request(request, BrokerRegistrationResponse, deadline=deadline)
    assert registered.error_code == 0
    epoch = registered.broker_epoch
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch, current_metadata_offset=store.image.offset
    )
    response = await channel.request(heartbeat, BrokerHeartbeatResponse, deadline=deadline)
    assert not response.is_fenced
    return epoch


def channel_of(store: MetadataStore, config: BrokerConfig | None = None) -> ControllerChannel:
    """Return a channel to the controller of the node of `store`."""
    clock = ManualClock()
    slices = Slices(clock)
    controller = Controller(
        config or BrokerConfig({"node.id": "1"}),
        store,
        Dispatcher(RequestChannel(100), RequestMetrics(), clock, slices, quotas=None, guard=None),
        clock=clock,
        randomness=SeededRandomness(),
        authorizer=ALLOW_EVERYTHING,
    )
    settings = ConnectionSettings(
        client_id="1", max_response_bytes=1_000_000, request_timeout_ms=1_000, setup_timeout_ms=1_000
    )
    return ControllerChannel(
        find=lambda: None,
        environment=SystemEnvironment(),
        settings=settings,
        clock=clock,
        slices=slices,
        local=controller.in_process,
    )
