"""Clusters of processes of Apache Kafka and of Tidelog."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.reference_software.kafka_programs import WITHIN_S, Engine, Programs
from tidelog.local_cluster.ports import free_ports

METADATA_LOG = "__cluster_metadata-0"

# Fast, and small enough for many processes on one machine.
COMMON = {
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "6000",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
    "log.segment.delete.delay.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
}


@dataclass(slots=True)
class Node:
    """One process of the cluster: its files and ports, and the process while it runs."""

    number: int
    engine: Engine
    role: str
    port: int
    root: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return the address of its only listener."""
        return f"127.0.0.1:{self.port}"

    @property
    def directory(self) -> Path:
        """Return its log directory."""
        return self.root / f"node-{self.number}"

    @property
    def config(self) -> Path:
        """Return its server.properties."""
        return self.root / f"node-{self.number}.properties"

    @property
    def output(self) -> Path:
        """Return its output."""
        return self.root / f"node-{self.number}.out"

    def log_bytes(self, partition: str) -> bytes:
        """Return all records of its replica of a partition, as stored in the segments."""
        files = sorted((self.directory / partition).glob("*.log"))
        return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


class MixedCluster:
    """Nodes by number, all on this machine; every controller is a voter."""

    def __init__(
        self, root: Path, *, settings: Mapping[str, str] | None = None, plugins: Sequence[str] = ()
    ) -> None:
        self.root = root
        self.nodes: dict[int, Node] = {}
        small = ("-XX:TieredStopAtLevel=1",)
        self.jars = Path(os.environ["TIDELOG_KAFKA_JARS"])
        self._programs = Programs(
            folder=root,
            jars=self.jars,
            plugins=plugins,
            broker_options=("-Xmx512m", *small),
            tool_options=("-Xmx128m", *small),
            niceness=5,
        )
        # Settings of each node, which override the common ones.
        self._common = {**COMMON, **(settings or {})}
        self._programs.write_logging()

    def add(self, number: int, engine: Engine, role: str, settings: dict[str, str] | None = None) -> Node:
        """Add a node that is neither formatted nor started yet."""
        node = Node(number, engine, role, free_ports(1)[0], self.root, dict(settings or {}))
        self.nodes[number] = node
        return node

    def format(self, node: Node, *options: str) -> None:
        """Write its configuration and format its directory."""
        node.config.write_text("".join(f"{key}={value}\n" for key, value in self._settings(node).items()))
        self._programs.format(node.engine, node.config, *options)

    def start(self, *nodes: Node) -> None:
        """Start the processes without waiting until they are ready."""
        for node in nodes:
            node.process = self._programs.start(node.engine, node.config, node.output)

    def stop(self, node: Node) -> None:
        """Stop a node by SIGTERM: leadership is handed over, logs are closed."""
        assert node.process is not None
        node.process.send_signal(signal.SIGTERM)
        try:
            code = node.process.wait(WITHIN_S)
        finally:
            self.kill(node)
        # A Java process that ends on SIGTERM has the exit code 143.
        assert code in {0, 143}, (
            f"{node.engine.value} {node.number} ended with the exit code {code}; allowed are 0 and 143"
        )

    def kill(self, node: Node) -> None:
        """Kill a node."""
        if node.process is not None:
            node.process.kill()
            node.process.wait()
            node.process = None

    def signal(self, node: Node, number: signal.Signals) -> None:
        """Pause or resume a process."""
        assert node.process is not None
        node.process.send_signal(number)

    def end(self) -> None:
        """Kill all processes that still run."""
        for node in self.nodes.values():
            self.kill(node)

    def brokers(self, *, running: bool = True) -> list[Node]:
        """Return the running brokers, or all brokers."""
        return [
            node
            for node in self.nodes.values()
            if "broker" in node.role and (node.process is not None or not running)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Return every broker's address."""
        return ",".join(node.address for node in self.brokers(running=False))

    def tool(self, main_class: str, *arguments: str) -> str:
        """Return the output of one of Kafka's command line tools, or an empty text if it fails."""
        done = self._programs.tool(main_class, *arguments)
        return done.stdout if done.returncode == 0 else ""

    def _settings(self, node: Node) -> dict[str, str]:
        controllers = [each for each in self.nodes.values() if "controller" in each.role]
        own = "CONTROLLER" if node.role == "controller" else "PLAINTEXT"
        return {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **self._common,
            "process.roles": node.role,
            "node.id": str(node.number),
            "log.dirs": str(node.directory),
            "listeners": f"{own}://{node.address}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{each.number}@{each.address}" for each in controllers),
            **node.settings,
        }
