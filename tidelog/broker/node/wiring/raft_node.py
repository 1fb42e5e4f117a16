"""This node's replica of the metadata quorum, put together: files, state machine, driver, peers, store.

    made    log and snapshots are open, quorum-state is read; nothing runs yet
    start   the store follows what is committed, elections run
    stop    what was submitted is finished, leadership given up, the log closed in order

A failure that must not happen (a failed sync, a committed record that cannot be applied) ends the
replica and is told to `on_fatal`: a node that does not know what is on its disk must not vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.base.clock import Clock
from tidelog.broker.metadata.snapshotter import SnapshotSettings, Snapshotter
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.raft.driver import QuorumMachine, RaftDriver
from tidelog.broker.raft.log import MetadataLog, MetadataLogConfig
from tidelog.broker.raft.peers import Peers
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.connecting import ConnectionSettings
from tidelog.cluster.quorum.events import ResponseReceived
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.voter_set import Endpoint, VoterSet
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.schema import ApiMessage, MetadataRecord
from tidelog.storage.disk.files import FileSystem

FINISH_TIMEOUT_S: Final = 2.0
"""How long a stop waits for what was submitted; it may never be committed when the others are gone."""

SETTLE_TIMEOUT_S: Final = 0.5
"""How long a stop waits for the others to hear that this node leads no more."""


class Replica(QuorumMachine, Protocol):
    """The state machine, as far as the node asks it."""

    @property
    def leader_id(self) -> BrokerId | None:
        """Who leads, as far as is known."""

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the leader is reached; empty when that is not known."""

    def voters_at(self, end_offset: Offset) -> tuple[int, VoterSet | None]:
        """kraft.version and the voters that the log below `end_offset` names, None for static ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """`directory` is the log directory that holds the metadata log; `listeners` those of controllers."""

    node_id: BrokerId
    cluster_id: str
    directory: str
    log: MetadataLogConfig = field(default_factory=MetadataLogConfig)
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    listeners: Sequence[str] = ()


MachineFactory = Callable[[MetadataLog, QuorumRecord | None], Replica]


class RaftNode:
    """See the module; made, started and stopped on one event loop."""

    def __init__(
        self,
        config: RaftConfig,
        *,
        fs: FileSystem,
        clock: Clock,
        environment: Environment,
        connections: ConnectionSettings,
        executor: Executor,
        make_machine: MachineFactory,
        first_records: Callable[[], Sequence[MetadataRecord]],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Open the files. `executor` has room for a sync and a snapshot at the same time.

        Errors: CorruptFile and its kinds, KafkaError KAFKA_STORAGE_ERROR, OSError.
        """
        self.config = config
        self.log = MetadataLog.open(fs, config.directory, config.log, clock)
        state_file = QuorumStateFile(fs, self.log.directory)
        self.machine = make_machine(self.log, state_file.read())
        self.peers = Peers(environment, connections, self._answered, listener_names=config.listeners)
        self.snapshotter = Snapshotter(
            self.log,
            config.snapshots,
            clock=clock,
            executor=executor,
            voters_at=self.machine.voters_at,
        )
        self.store = MetadataStore(
            self.log,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            first_records=first_records,
            snapshotter=self.snapshotter,
        )
        self.driver = RaftDriver(
            self.machine,
            self.log,
            state_file,
            listener=self.store,
            sender=self.peers,
            clock=clock,
            executor=executor,
            on_fatal=self._failed,
        )
        self._tell_fatal = on_fatal

    def start(self) -> None:
        """Follow, vote and be voted for from now on."""
        self.store.start(self.driver)
        self.driver.start()

    async def stop(self) -> None:
        """End in order. Errors: KafkaError KAFKA_STORAGE_ERROR when the log cannot be closed so."""
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                await self.store.finish()
        except TimeoutError:
            pass
        await self.driver.resign()
        await self.peers.settle(SETTLE_TIMEOUT_S)
        await self.driver.stop()
        await self.store.close()
        await self.peers.close()
        self.log.close(clean=True)

    async def abandon(self) -> None:
        """End as a crash would: nothing more is written, and nobody is told."""
        await self.driver.stop(at_once=True)
        await self.store.close()
        await self.peers.close()
        self.log.close(clean=False)

    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the active controller that `store` names is reached; empty when that is not known."""
        machine = self.machine
        return machine.leader_endpoints if machine.leader_id == self.store.leader else ()

    def _answered(self, request_id: int, message: ApiMessage | None) -> None:
        self.driver.post(ResponseReceived(request_id, message))

    def _failed(self, error: BaseException) -> None:
        self.store.fail(error)
        self._tell_fatal(error)
