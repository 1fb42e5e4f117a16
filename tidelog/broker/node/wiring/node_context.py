"""The objects that all parts of a node share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.base.threads import Threads
from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.sockets import Sockets
from tidelog.broker.node.wiring.node_ports import NodePorts
from tidelog.broker.node.wiring.node_tls import NodeTls
from tidelog.broker.node.wiring.observability import NodeObservability
from tidelog.broker.node.wiring.peer_authentication import PeerAuthentication
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.replication.log_dir_moves import MOVES_MAX
from tidelog.broker.scheduling.slices import HEAVY_MAX, Slices
from tidelog.clients.config.environment import Environment
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.storage.disk.files import FileSystem

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# One thread for the fsync that the quorum waits for, one for a snapshot.
_QUORUM_THREADS: Final = 2
# These threads call fsync; more threads than disks do not make it faster.
_FLUSH_THREADS: Final = 4
# Separate threads: a produce request that waits for fsync must not wait until large files are deleted.
_HOUSEKEEPING_THREADS: Final = 2
_CLEANING_THREADS_MAX: Final = 32


class NodeFailure:
    """The failure of a node, with its reason. The process waits for `event` and then stops the node."""

    def __init__(self, node_id: BrokerId) -> None:
        self.event = asyncio.Event()
        self.reason = ""
        self._node_id = node_id

    def report(self, reason: str) -> None:
        """Log the reason why the node must stop, and set `event`."""
        logger.error("Stopping node %d, which cannot continue: %s", self._node_id, reason)
        self.reason = reason
        self.event.set()

    async def cancel_on_failure(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Return the result of `work`; cancel it and raise KafkaError if the node fails first."""
        task = asyncio.ensure_future(work)
        failure_task = asyncio.ensure_future(self.event.wait())
        try:
            await asyncio.wait((task, failure_task), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.reason)
            return await task
        finally:
            task.cancel()
            failure_task.cancel()
            await asyncio.gather(task, failure_task, return_exceptions=True)


class NodeThreads:
    """The threads in which a node waits for its disks."""

    def __init__(self, threads: Threads) -> None:
        start = threads.executor
        self.quorum = start(_QUORUM_THREADS, "tidelog-quorum")
        self.flush = start(_FLUSH_THREADS, "tidelog-flush")
        self.housekeeping = start(_HOUSEKEEPING_THREADS, "tidelog-upkeep")
        # One thread, so that logs are created and removed in the order of the metadata.
        self.log_work = start(1, "tidelog-log-work")
        # For work that would block the event loop too long: compression of large batches.
        self.slices = start(HEAVY_MAX, "tidelog-slices")
        # log.cleaner.threads is the number of threads that are used.
        self.cleaning = start(_CLEANING_THREADS_MAX, "tidelog-log-cleaner")
        # num.replica.alter.log.dirs.threads is the number of threads that are used.
        self.moves = start(MOVES_MAX, "tidelog-log-moves")

    def shut_down(self) -> None:
        """Wait for the work in progress and end the threads."""
        for executor in (
            self.quorum,
            self.flush,
            self.housekeeping,
            self.log_work,
            self.slices,
            self.cleaning,
            self.moves,
        ):
            executor.shutdown(wait=True)


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """The configuration and identity of one node, and its ports to the operating system.

    `directory_ids` has the ids of all usable directories by path, including that of the metadata log.
    """

    config: BrokerConfig
    cluster_id: str
    directory_ids: Mapping[str, UUID]
    ports: NodePorts
    observability: NodeObservability
    threads: NodeThreads
    slices: Slices
    failure: NodeFailure
    tls: NodeTls
    peers: PeerAuthentication

    @property
    def fs(self) -> FileSystem:
        """The disk."""
        return self.ports.fs

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.ports.clock

    @property
    def environment(self) -> Environment:
        """The connections to other nodes, and their clock and jitter."""
        return self.ports.environment

    @property
    def randomness(self) -> Randomness:
        """The source of new ids."""
        return self.ports.randomness

    @property
    def sockets(self) -> Sockets:
        """The sockets of the listeners."""
        return self.ports.sockets

    def security_of(self, listener: str) -> PeerSecurity:
        """Return the security of connections to a listener of other nodes. Errors: ConfigError."""
        return PeerSecurity(self.tls.source(listener), self.peers.authenticator(listener))

    @property
    def metrics(self) -> BrokerMetrics:
        """The metrics of this node."""
        return self.observability.metrics

    @property
    def log_directory_ids(self) -> dict[str, UUID]:
        """The ids of the directories that contain partitions, by path."""
        directories = self.config.log_directories
        return {
            path: directory_id for path, directory_id in self.directory_ids.items() if path in directories
        }

    @cached_property
    def host_name(self) -> str:
        """The host to advertise if a listener has none; the first access may query a name server."""
        config = self.config
        listeners = (
            *config.broker_listeners,
            *config.advertised("", {}),
            *config.advertised_controllers("", {}),
        )
        return "" if all(listener.host for listener in listeners) else socket.getfqdn()
