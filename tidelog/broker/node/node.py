"""One node: the parts it is made of, and the order in which they start and stop.

    start   directories -> metadata quorum and its listeners -> sockets bound -> registered
            -> caught up with the metadata -> logs and partitions -> unfenced -> serving
    stop    leaders moved away -> sockets closed once answered -> groups -> flushes
            -> logs closed cleanly -> metadata quorum, whose leadership is given up

A client can connect only when every partition is open, so the first answer is already right. A node
that is no broker ends its start with the quorum.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from tidelog.base.clock import Clock, SystemClock
from tidelog.base.config_definition import ConfigError
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.descriptor_budget import process_budget, raise_open_file_limit
from tidelog.broker.logs.directory_locks import DirectoryLocks
from tidelog.broker.metadata.directories import Identity, prepare_directories
from tidelog.broker.node.wiring.broker_part import BrokerPart
from tidelog.broker.node.wiring.node_context import NodeContext, NodeThreads
from tidelog.broker.node.wiring.quorum_part import QuorumPart
from tidelog.broker.node.wiring.raft_node import RaftNode
from tidelog.broker.observability.loop_stalls import LoopStalls
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.metrics_endpoint import MetricsEndpoint
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.descriptor_reserve import DescriptorReserve
from tidelog.storage.disk.files import File, FileSystem, OsFileSystem

if TYPE_CHECKING:
    from tidelog.broker.tier.part import RemotePart

logger = logging.getLogger(__name__)

DESCRIPTORS_RESERVED: Final = 8
"""As many as threads of a node may at once need one for a moment."""


class BrokerNode:
    """A node, broker or controller or both; `start` and `stop` run on one event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.config = config
        raise_open_file_limit()
        self._fs: FileSystem = fs or _file_system()
        self._clock: Clock = clock or SystemClock()
        self._cluster_id = cluster_id
        self._randomness = random.SystemRandom()
        self._threads = NodeThreads()
        self._slices = Slices(self._clock, self._threads.slices)
        self._broker: BrokerPart | None = None
        self._ended = False
        self.metrics = BrokerMetrics()
        self._loop_stalls: LoopStalls | None = None
        self.metrics_endpoint: MetricsEndpoint | None = None
        self.failed = asyncio.Event()
        """Set when this node cannot go on and has to be stopped; the reason is logged."""
        self._why_failed = ""

    @property
    def services(self) -> Services:
        """What the broker's handlers are made from; only a node that is a broker has it."""
        assert self._broker is not None, "the node is no broker, or is not started"
        return self._broker.services

    @property
    def remote(self) -> RemotePart | None:
        """Tiered storage on this node; None where it is switched off."""
        return None if self._broker is None else self._broker.remote

    @property
    def raft(self) -> RaftNode:
        """This node's replica of the metadata quorum."""
        return self._quorum.raft

    # ---- start

    async def start(self) -> None:
        """Start everything; returns once clients are served.

        Errors: what keeps it from running. Everything is closed in order then, so that the next start
        needs no recovery.
        """
        async with AsyncExitStack() as undo:
            undo.callback(self._threads.shut_down)
            self._loop_stalls = LoopStalls(self._clock)
            self._loop_stalls.report_to(self.metrics)
            context = self._open(undo)
            self._quorum = QuorumPart(context, undo)
            await self._quorum.start()
            if self.config.is_broker:
                self._broker = BrokerPart(context, self._quorum)
                await self._unless_failed(self._broker.start(undo))
            await self._start_metrics()
            self._loop_stalls.start()
            undo.pop_all()

    async def _unless_failed(self, starting: Coroutine[Any, Any, None]) -> None:
        """Start a part, but do not wait for what cannot come any more."""
        tasks = [asyncio.ensure_future(starting), asyncio.ensure_future(self.failed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._why_failed)
            await tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self, undo: AsyncExitStack) -> NodeContext:
        """The directories, which belong to this node and cluster and to no other process."""
        identity = self._identity()
        self._locks = DirectoryLocks(self._fs, identity.directory_ids)
        undo.callback(self._locks.release)
        return NodeContext(
            config=self.config,
            cluster_id=identity.cluster_id,
            directory_ids=identity.directory_ids,
            fs=self._fs,
            clock=self._clock,
            environment=SystemEnvironment(),
            randomness=self._randomness,
            metrics=self.metrics,
            threads=self._threads,
            slices=self._slices,
            cannot_go_on=self._cannot_go_on,
        )

    def _identity(self) -> Identity:
        config, metadata = self.config, self.config.metadata_log_directory
        identity = prepare_directories(
            self._fs,
            tuple(dict.fromkeys((*config.log_directories, metadata))),
            config.node_id,
            self._cluster_id,
            self._randomness,
            may_be_new=config.has_own_quorum,
        )
        if metadata not in identity.directory_ids:
            raise ConfigError("metadata.log.dir", metadata, "the directory cannot be used")
        return identity

    async def _start_metrics(self) -> None:
        if self.config.metrics_port is not None:
            self.metrics_endpoint = MetricsEndpoint(self.metrics, self._why_unhealthy)
            await self.metrics_endpoint.start(self.config.metrics_address, self.config.metrics_port)

    def _why_unhealthy(self) -> str | None:
        failure = self.raft.store.failure
        if failure is not None:
            return str(failure)
        if self._broker is not None and not self.services.logs.online_directories:
            return "every log directory is offline"
        return None

    def _cannot_go_on(self, reason: str) -> None:
        """Hear why this node must stop; whoever runs it waits for `failed`."""
        logger.error("node %d must stop: %s", self.config.node_id, reason)
        self._why_failed = reason
        self.failed.set()

    # ---- addresses

    def bound_port(self, listener: str | None = None) -> int:
        """The port of a listener, by default the first; of interest when port 0 was asked for."""
        ports = {**({} if self._broker is None else self._broker.ports), **self._quorum.listeners.ports()}
        return ports[listener or next(iter(ports))]

    def addresses(self) -> Iterator[tuple[str, str, int]]:
        """Name, host and port of the listeners for clients; of a controller alone, those for other nodes."""
        if self._broker is not None:
            for listener in self._broker.advertised():
                yield listener.name, listener.host, listener.port
        else:
            yield from self._quorum.endpoints

    # ---- stop

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Shut down cleanly: answer what is in hand, make everything durable, leave the marker of it."""
        if self._ended:
            return
        self._ended = True
        try:
            if self._broker is not None:
                await self._broker.stop(timeout_s)
        finally:
            await self._quorum.leave()
            try:
                await self.raft.stop()
            finally:
                await self._release()

    async def abandon(self) -> None:
        """End without a shutdown, as after a crash: nothing more is written."""
        if self._ended:
            return
        self._ended = True
        await self.raft.abandon()
        await self._quorum.leave()
        if self._broker is not None:
            await self._broker.abandon()
        await self._release()

    async def _release(self) -> None:
        if self._loop_stalls is not None:
            self._loop_stalls.stop()
        await self._quorum.release()
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.close()
        self._slices.close()
        self._threads.shut_down()
        self._locks.release()


def _file_system() -> FileSystem:
    """Return the operating system's files, with as many descriptors as the process has for them."""
    pool: DescriptorPool[File] = DescriptorPool(process_budget().pooled_max)
    return OsFileSystem(pool, DescriptorReserve(DESCRIPTORS_RESERVED))
