"""One node: a broker, a controller or both. The stages are the order in which it starts and stops.

    directories                 prepared and locked
    threads                     for calls that wait for disks
    observability               metrics and health
    controller requests
    controller listeners        bound
    metadata log                opened; stopped: leadership resigned, log closed
    controller channels
    quorum participation        listeners accept, elections run
    client listeners            bound
    registration                registered, metadata applied
    logs                        opened, partitions created; stopped: closed cleanly
    flushes and timers
    requests
    broker channels
    coordinators                stopped: waiting requests get their responses
    connections                 stopped: listeners closed when responses are sent
    transaction verification
    remote storage
    share partitions
    metadata subscriptions
    log upkeep
    coordination
    parked requests             stopped: completed
    replication
    membership                  unfenced; stopped: leadership moved to other brokers
    tiering                     stopped: copies ended, their records written
    accepting connections
    metrics endpoint
    console                     only with console.listener
    crash point                 abandoned: nothing more is written to the metadata log

A node without the role of a broker has no stages from `client listeners` to `accepting connections`. Clients
can connect when all partitions are open, so the first response is correct.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.base.config_definition import ConfigError
from tidelog.base.randomness import Randomness
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.descriptor_budget import raise_open_file_limit
from tidelog.broker.logs.directory_locks import DirectoryLocks
from tidelog.broker.metadata.directories import NodeIdentity, prepare_directories
from tidelog.broker.node.wiring.broker_part import BrokerPart, start_broker
from tidelog.broker.node.wiring.console import create_console
from tidelog.broker.node.wiring.node_context import NodeContext, NodeFailure, NodeThreads
from tidelog.broker.node.wiring.node_ports import NodePorts, system_ports
from tidelog.broker.node.wiring.node_tls import NodeTls
from tidelog.broker.node.wiring.observability import NodeObservability
from tidelog.broker.node.wiring.peer_authentication import PeerAuthentication
from tidelog.broker.node.wiring.quorum_part import QuorumPart, start_quorum
from tidelog.broker.node.wiring.raft_node import RaftNode
from tidelog.broker.node.wiring.stages import STOP_TIMEOUT_S, Stage, Stages
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.scheduling.slices import Slices
from tidelog.storage.disk.files import FileSystem

if TYPE_CHECKING:
    from tidelog.broker.tier.tiered_storage import TieredStorage


class BrokerNode:
    """A node that has started: `stop` or `abandon` it on the same event loop."""

    def __init__(
        self, context: NodeContext, stages: Stages, quorum: QuorumPart, broker: BrokerPart | None
    ) -> None:
        """`broker` is None if this node is only a controller. Use `start` to get a node."""
        self.config = context.config
        self.stages = stages
        self._context = context
        self._quorum = quorum
        self._broker = broker

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        *,
        ports: NodePorts | None = None,
        cluster_id: str | None = None,
        failure: NodeFailure | None = None,
    ) -> BrokerNode:
        """Start a node and return it when it serves clients.

        `ports` are by default those to the operating system. `cluster_id` is for new directories. `failure`
        is set when the node cannot continue, also during the start. Errors: those of the stages. All stages
        are then undone, and open logs are closed cleanly, so that the next start needs no recovery.
        """
        raise_open_file_limit()
        stages = Stages()
        async with stages.undo_on_failure():
            context = await _create_context(config, ports or system_ports(), cluster_id, failure, stages)
            quorum = await start_quorum(context, stages)
            broker: BrokerPart | None = None
            if config.is_broker:
                broker = await context.failure.cancel_on_failure(start_broker(context, quorum, stages))
                logs = broker.services.logs
                context.observability.health_checks.append(
                    lambda: None if logs.directories.online else "every log directory is offline"
                )
            if config.is_controller and config.tidelog_backup_interval_ms >= 0:
                # Imported here: most nodes write no backups.
                from tidelog.broker.node.wiring.cluster_backup import create_backup

                backup = create_backup(context, quorum)
                await stages.start(Stage(name="backups", stop=[backup.stop]))
            await stages.start(Stage(name="metrics endpoint", start=[context.observability.start]))
            if broker is not None and (console := create_console(context, broker.network)) is not None:
                await stages.start(
                    Stage(
                        name="console", start=[console.start], stop=[console.close], abandon=[console.close]
                    )
                )
            abandon = [quorum.raft.abandon, quorum.registration.close, quorum.access.close]
            await stages.start(Stage(name="crash point", abandon=abandon))
        return cls(context, stages, quorum, broker)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Shut down cleanly: complete requests for at most `timeout_s`, and make all data durable."""
        await self.stages.stop(timeout_s)

    async def abandon(self) -> None:
        """End without a shutdown, as after a crash: nothing more is written."""
        await self.stages.abandon()

    # ---- the parts

    @property
    def services(self) -> Services:
        """The services of the broker's handlers; only a node with the role of a broker has them."""
        assert self._broker is not None, "the node is not a broker"
        return self._broker.services

    @property
    def remote(self) -> TieredStorage | None:
        """The tiered storage of this node; None if it is disabled."""
        return None if self._broker is None else self._broker.remote

    @property
    def raft(self) -> RaftNode:
        """This node's replica of the metadata quorum."""
        return self._quorum.raft

    @property
    def metrics(self) -> BrokerMetrics:
        """The metrics of this node."""
        return self._context.metrics

    @property
    def metrics_port(self) -> int | None:
        """The port on which metrics are served; None if metrics.port is not set."""
        endpoint = self._context.observability.endpoint
        return None if endpoint is None else endpoint.port

    # ---- addresses

    def bound_port(self, listener: str | None = None) -> int:
        """Return the bound port of a listener, by default of the first one; it differs from port 0."""
        ports = {
            **({} if self._broker is None else self._broker.network.ports),
            **self._quorum.listeners.ports(),
        }
        return ports[listener or next(iter(ports))]

    def addresses(self) -> Iterator[tuple[str, str, int]]:
        """Yield name, host and port of the listeners for clients, or of a controller for other nodes."""
        if self._broker is not None:
            for listener in self._broker.network.advertised():
                yield listener.name, listener.host, listener.port
        else:
            yield from self._quorum.endpoints


async def _create_context(
    config: BrokerConfig,
    ports: NodePorts,
    cluster_id: str | None,
    failure: NodeFailure | None,
    stages: Stages,
) -> NodeContext:
    """Prepare and lock the directories, and create the threads and the metrics."""
    identity = _prepare_directories(config, ports.fs, cluster_id, ports.randomness)
    locks = DirectoryLocks(ports.fs, identity.directory_ids)
    await stages.start(Stage(name="directories", stop=[locks.release]))
    threads = NodeThreads(ports.threads)
    slices = Slices(ports.clock, threads.slices)
    await stages.start(Stage(name="threads", stop=[slices.close, threads.shut_down]))
    observability = NodeObservability(config, ports.clock)
    await stages.start(Stage(name="observability", stop=[observability.close]))
    return NodeContext(
        config=config,
        cluster_id=identity.cluster_id,
        directory_ids=identity.directory_ids,
        ports=ports,
        observability=observability,
        threads=threads,
        slices=slices,
        failure=failure or NodeFailure(config.node_id),
        tls=NodeTls(config),
        peers=PeerAuthentication(config, ports.environment),
    )


def _prepare_directories(
    config: BrokerConfig, fs: FileSystem, cluster_id: str | None, randomness: Randomness
) -> NodeIdentity:
    metadata = config.metadata_log_directory
    identity = prepare_directories(
        fs,
        tuple(dict.fromkeys((*config.log_directories, metadata))),
        config.node_id,
        cluster_id,
        randomness,
        may_be_new=config.has_own_quorum,
    )
    if metadata not in identity.directory_ids:
        raise ConfigError("metadata.log.dir", metadata, "the directory cannot be used")
    return identity
