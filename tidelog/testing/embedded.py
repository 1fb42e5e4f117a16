"""One or several brokers inside a test or a notebook: started in milliseconds, on free ports.

The nodes run on an event loop of their own, in a thread of their own. Synchronous clients (confluent-kafka,
kafka-python) and asyncio clients can both be used in the test.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tidelog.broker.config.known_keys import require_known_keys
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_ports import system_ports
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.local_cluster.layout import (
    CLIENT_LISTENER,
    CLUSTER_FILE,
    QUICK_TIMEOUTS,
    ClusterLayout,
    new_layout,
    read_layout,
)
from tidelog.local_cluster.security import (
    SECURE_LISTENER,
    SECURITY_FOLDER,
    ClusterSecurity,
    Security,
)
from tidelog.local_cluster.tiering import (
    QUICK_TIERING,
    TIER_FOLDER,
    metadata_topic_settings,
    tiered_settings,
)
from tidelog.protocol.steps import run_steps
from tidelog.testing.loop_thread import LoopThread
from tidelog.testing.movable_clock import MovableClock
from tidelog.testing.topics import create_topics

ResultT = TypeVar("ResultT")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0

# Defaults of a production cluster would make tests wait.
EMBEDDED_DEFAULTS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
SINGLE_NODE_DEFAULTS: Mapping[str, str] = {
    **EMBEDDED_DEFAULTS,
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    **metadata_topic_settings(1),
}
CLUSTER_DEFAULTS: Mapping[str, str] = {**EMBEDDED_DEFAULTS, **QUICK_TIMEOUTS}


class EmbeddedCluster:
    """A cluster of `nodes` brokers in a `with` block, or between `start()` and `stop()`.

    `config` has Kafka's keys, which override defaults for small clusters; an unknown key is a ConfigError.
    Data in `data_dir` remains after `stop()`; without `data_dir` a temporary folder is used and removed. If
    there is more than one node, each is broker and controller, and topics have up to three replicas. Each has
    `directories` log directories, and a rack of its own with `has_racks`. `tiered` enables tiered storage in
    the folder `tier` of the data, with short intervals; a topic uses it with remote.storage.enable. With
    `security`, all listeners are secured; `client_settings` has what clients need, and the folder `security`
    of the data has the certificates.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        data_dir: str | Path | None = None,
        directories: int = 1,
        has_racks: bool = False,
        tiered: bool = False,
        security: Security | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes={nodes}: a cluster has at least one node")
        self._count = nodes
        self._shape: dict[str, Any] = {"directories": directories, "has_racks": has_racks}
        self._keeps_data = data_dir is not None
        self.data_dir = Path(data_dir) if data_dir is not None else Path(tempfile.mkdtemp(prefix="tidelog-"))
        self._own_config = dict(config or {})
        self._tiered = tiered
        self._security = security
        self._secured: ClusterSecurity | None = None
        self._port = 0
        self._clock = MovableClock()
        self._layout: ClusterLayout | None = None
        self.nodes: dict[int, BrokerNode] = {}
        self._loop: LoopThread | None = None
        """The event loop of the nodes; None while the cluster is stopped."""

    # ---- for clients and tests

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, `host:port`, separated by commas."""
        return f"127.0.0.1:{self._port}" if self._layout is None else self._layout.bootstrap_servers

    def client_settings(self, user: str | None = None) -> ClientSettings:
        """Return the settings for clients of several libraries, as `user`.

        The default is the first super user, or the first user. Errors: ValueError for an unknown user.
        """
        if self._secured is None:
            return ClientSettings(bootstrap_servers=self.bootstrap_servers)
        return self._secured.client_settings(self.bootstrap_servers, user)

    @property
    def node(self) -> BrokerNode:
        """The running broker with the lowest id; use it only in `run`, on its own event loop."""
        assert self.nodes, "the cluster is not started"
        return self.nodes[min(self.nodes)]

    def run(self, work: Callable[[BrokerNode], ResultT], node_id: int | None = None) -> ResultT:
        """Call `work` with a node on the event loop of the nodes, and return its result."""

        async def on_loop() -> ResultT:
            return work(self.node if node_id is None else self.nodes[node_id])

        return self._on_loop(on_loop())

    def create_topics(
        self, topics: Mapping[str, int] | Iterable[str], config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics by name, or with their numbers of partitions. Errors: KafkaError of the first."""
        counts = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        if counts:
            self._on_loop(create_topics(self.client_settings(), counts, config or {}))

    def advance_time(self, duration: timedelta) -> None:
        """Set the wall clock of the nodes forward and apply retention: older records are deleted.

        Otherwise retention runs as in a cluster, every log.retention.check.interval.ms. Clients still use the
        system's clock.
        """
        self._clock.advance(duration)
        self._on_loop(self._apply_retention())

    # ---- the cluster

    def start(self) -> EmbeddedCluster:
        """Start all nodes, and return when they serve clients. Errors: what prevents the start."""
        assert self._loop is None, "the cluster is started already"
        loop = self._loop = LoopThread()
        try:
            self._prepare()
            self._on_loop(self._start_nodes())
            if self._secured is not None:
                self._on_loop(self._secured.create_users(self.bootstrap_servers))
        except BaseException:
            self._loop = None
            loop.close(STOP_TIMEOUT_S)
            self._remove_data()
            raise
        return self

    def stop(self) -> None:
        """Stop all nodes: cleanly if `data_dir` was given, else at once, and remove the data."""
        self._end(clean=self._keeps_data)
        self._remove_data()

    def restart(self, *, clean: bool = True) -> None:
        """Stop and start with the same data and ports; `clean=False` ends the nodes as after a crash."""
        self._end(clean=clean)
        self.start()

    # ---- one node

    def stop_node(self, node_id: int) -> None:
        """Stop one node cleanly; the others continue."""
        self._on_loop(self.nodes.pop(node_id).stop())

    def kill_node(self, node_id: int) -> None:
        """End one node as after a crash; the others continue."""
        self._on_loop(self.nodes.pop(node_id).abandon())

    def start_node(self, node_id: int) -> None:
        """Start a node that was stopped or killed, with its data and ports."""
        self._on_loop(self._start_node(node_id))

    @property
    def tier_dir(self) -> Path:
        """The folder that is the object store of a tiered cluster."""
        return self.data_dir / TIER_FOLDER

    # ---- parts of a start and an end

    def _prepare(self) -> None:
        require_known_keys(self._own_config)
        if self._tiered:
            quick = {**QUICK_TIERING, **self._own_config}
            self._own_config = tiered_settings(self.data_dir, self._count, quick)
        if self._security is not None and self._secured is None:
            self._secured = ClusterSecurity.create(self._security, self.data_dir / SECURITY_FOLDER)
        if self._count == 1 or self._layout is not None:
            return
        if (self.data_dir / CLUSTER_FILE).exists():
            self._layout = read_layout(self.data_dir)
        else:
            settings = {**CLUSTER_DEFAULTS, **self._security_config(), **self._own_config}
            layout = new_layout(self.data_dir, self._count, settings=settings, **self._shape)
            self._layout = replace(layout, client_listener=self._listener)
            self._layout.write()

    async def _start_nodes(self) -> None:
        # All at the same time: without a majority no broker can be unfenced.
        starts = [asyncio.create_task(self._start_node(node_id)) for node_id in range(1, self._count + 1)]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            for node in self.nodes.values():
                await node.abandon()
            self.nodes.clear()
            raise

    async def _start_node(self, node_id: int) -> None:
        ports = system_ports(clock=self._clock)
        node = self.nodes[node_id] = await BrokerNode.start(self._broker_config(node_id), ports=ports)
        if self._layout is None:
            # A restart uses the same port, which clients know.
            self._port = node.bound_port()

    async def _apply_retention(self) -> None:
        for node in self.nodes.values():
            run_steps(node.services.logs.maintenance.apply_retention(self._clock.wall_ms()))

    def _broker_config(self, node_id: int) -> BrokerConfig:
        if self._layout is not None:
            return BrokerConfig(self._layout.properties(self._layout.node(node_id)))
        # Other folders than those of partitions must not be in a log directory.
        has_folders = self._tiered or self._security is not None
        folder = self.data_dir / "data" if has_folders else self.data_dir
        values = {
            **SINGLE_NODE_DEFAULTS,
            "listeners": f"{self._listener}://127.0.0.1:{self._port}",
            "log.dirs": str(folder),
            **self._security_config(),
            **self._own_config,
        }
        return BrokerConfig(values)

    @property
    def _listener(self) -> str:
        return CLIENT_LISTENER if self._security is None else SECURE_LISTENER

    def _security_config(self) -> dict[str, str]:
        if self._secured is None:
            return {}
        return {**self._secured.node_settings(), "inter.broker.listener.name": SECURE_LISTENER}

    def _end(self, *, clean: bool) -> None:
        loop = self._loop
        if loop is None:
            return
        nodes = list(self.nodes.values())
        self.nodes.clear()
        self._on_loop(_end_nodes(nodes, clean=clean))
        self._loop = None
        loop.close(STOP_TIMEOUT_S)

    def _on_loop(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        if self._loop is None:
            work.close()
            raise RuntimeError("the cluster is not started")
        return self._loop.complete(work, START_TIMEOUT_S)

    def _remove_data(self) -> None:
        if not self._keeps_data:
            self._layout = None
            self._secured = None
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> EmbeddedCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


async def _end_nodes(nodes: list[BrokerNode], *, clean: bool) -> None:
    await asyncio.gather(*(node.stop() if clean else node.abandon() for node in nodes))
