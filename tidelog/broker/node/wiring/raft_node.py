"""This node's replica of the metadata quorum: files, state machine, driver, peers and metadata store.

    constructed   the log and its snapshots are open, quorum-state has been read; no task runs
    start         the store applies committed records, elections run
    stop          submitted commands are completed, the leader resigns, the log is closed cleanly
    abandon       as after a crash: nothing more is written

A fatal failure (a failed fsync, a committed record that cannot be applied) ends the replica and is reported
to `on_fatal`, because a node with unknown contents on its disk must not vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol, TypeAlias

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.metadata.leadership import ControllerLeadership
from tidelog.broker.metadata.snapshotter import SnapshotSettings, Snapshotter
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.raft.driver import RaftDriver
from tidelog.broker.raft.log import MetadataLog, MetadataLogConfig
from tidelog.broker.raft.peers import Peers
from tidelog.broker.raft.quorum_probe import QuorumProbe
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.broker.raft.steps import MachineSteps, QuorumMachine
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.connecting import ConnectionSettings
from tidelog.cluster.quorum.events import ResponseReceived
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.voter_set import Endpoint, VoterSet
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.schema import ApiMessage, MetadataRecord
from tidelog.storage.disk.files import FileSystem

FINISH_TIMEOUT_S: Final = 2.0
"""The time that `stop` waits for submitted commands. Without a majority they are never committed."""

RESIGNATION_TIMEOUT_S: Final = 0.5
"""The time that `stop` waits for the responses of the other voters to the resignation."""


class ReplicaMachine(QuorumMachine, Protocol):
    """The state machine with the properties that a node needs; tests replace it."""

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader of the current epoch; None if it is unknown."""

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses of the leader; empty if they are unknown."""

    @property
    def voters(self) -> VoterSet:
        """The last voter set; empty if it is unknown."""

    def voters_at(self, end_offset: Offset) -> tuple[int, VoterSet | None]:
        """Return kraft.version and the voters in the log below `end_offset`; None for static voters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The identity and the settings of a replica.

    `directory` is the log directory of the metadata log. `listeners` are the names of the listeners for
    controllers.
    """

    node_id: BrokerId
    cluster_id: str
    directory: str
    log: MetadataLogConfig
    snapshots: SnapshotSettings
    listeners: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftPorts:
    """The ports of a replica; `executor` runs an fsync and a snapshot at the same time."""

    fs: FileSystem
    clock: Clock
    environment: Environment
    connections: ConnectionSettings
    executor: Executor
    slices: Slices


MachineFactory: TypeAlias = Callable[[MetadataLog, QuorumRecord | None], ReplicaMachine]


class RaftNode:
    """Owns the parts of the replica; constructed, started and stopped on one event loop."""

    def __init__(
        self,
        config: RaftConfig,
        ports: RaftPorts,
        *,
        create_machine: MachineFactory,
        first_records: Callable[[], Sequence[MetadataRecord]],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Open the files; `first_records` returns the records of a new cluster.

        Errors: CorruptFile and its subclasses, KafkaError KAFKA_STORAGE_ERROR, OSError.
        """
        self.config = config
        self._on_fatal = on_fatal
        self._is_ended = False
        self.log = MetadataLog.open(ports.fs, config.directory, config.log, ports.clock)
        state_file = QuorumStateFile(ports.fs, self.log.directory)
        self.machine = create_machine(self.log, state_file.read())
        self.steps = MachineSteps(self.machine, ports.clock)
        self.peers = Peers(
            ports.environment, ports.connections, self._on_response, listener_names=config.listeners
        )
        self.probe = QuorumProbe(
            config.node_id, ports.environment, ports.connections, self._voters, config.listeners
        )
        self.snapshotter = Snapshotter(
            self.log,
            config.snapshots,
            clock=ports.clock,
            executor=ports.executor,
            voters_at=self.machine.voters_at,
            schedule=self.steps.schedule,
        )
        leadership = ControllerLeadership(
            config.node_id,
            self.steps,
            log_end_offset=lambda: self.log.end_offset,
            first_records=first_records,
            slices=ports.slices,
        )
        self.store = MetadataStore(
            self.log,
            self.steps,
            cluster_id=config.cluster_id,
            leadership=leadership,
            snapshotter=self.snapshotter,
            slices=ports.slices,
            on_fatal=self._on_store_failed,
        )
        self.driver = RaftDriver(
            self.steps,
            self.log,
            state_file,
            listener=self.store,
            sender=self.peers,
            executor=ports.executor,
            on_fatal=self._on_failed,
        )

    def start(self) -> None:
        """Begin to fetch or lead, and to take part in elections. Raise CorruptFile for a damaged snapshot."""
        self.store.start()
        self.driver.start()

    async def stop(self) -> None:
        """Resign and close the log cleanly. Errors: KafkaError KAFKA_STORAGE_ERROR if that fails."""
        self._is_ended = True
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                await self.store.finish()
        except TimeoutError:
            pass
        await self.driver.resign()
        await self.peers.wait_for_responses(RESIGNATION_TIMEOUT_S)
        await self.driver.stop()
        await self.store.close()
        await self.peers.close()
        self.log.close(clean=True)

    async def abandon(self) -> None:
        """End as after a crash: write and send nothing more. Has no effect if the replica has ended."""
        if self._is_ended:
            return
        self._is_ended = True
        await self.driver.stop(at_once=True)
        await self.store.close()
        await self.peers.close()
        self.log.close(clean=False)

    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the addresses of the active controller; empty if they are unknown."""
        machine = self.machine
        return machine.leader_endpoints if machine.leader_id == self.store.leader else ()

    def _voters(self) -> VoterSet:
        return self.machine.voters

    def _on_response(self, request_id: int, message: ApiMessage | None) -> None:
        self.steps.post(ResponseReceived(request_id, message))

    def _on_store_failed(self, error: Exception) -> None:
        self.driver.fail(error)

    def _on_failed(self, error: BaseException) -> None:
        self.store.fail(error)
        self._on_fatal(error)
