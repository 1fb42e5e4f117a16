"""Clusters of processes some of which are Apache Kafka's and some Tidelog's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kafka.programs import WITHIN_S, Engine, Programs
from tidelog.local_cluster.ports import free_ports

METADATA_LOG = "__cluster_metadata-0"

# Quick, and small enough for many processes on one machine.
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
    """One process of the cluster: its place, and the process while it runs."""

    number: int
    engine: Engine
    role: str
    port: int
    root: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where its only listener is."""
        return f"127.0.0.1:{self.port}"

    @property
    def directory(self) -> Path:
        """Its log directory."""
        return self.root / f"node-{self.number}"

    @property
    def config(self) -> Path:
        """Its server.properties."""
        return self.root / f"node-{self.number}.properties"

    @property
    def output(self) -> Path:
        """What it has printed."""
        return self.root / f"node-{self.number}.out"

    def log_bytes(self, partition: str) -> bytes:
        """All records of its replica of a partition, as they are in the segments."""
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
        self._programs = Programs(
            folder=root,
            jars=Path(os.environ["TIDELOG_KAFKA_JARS"]),
            plugins=plugins,
            broker_options=("-Xmx512m", *small),
            tool_options=("-Xmx128m", *small),
            niceness=5,
        )
        # For every node, over the common ones.
        self._common = {**COMMON, **(settings or {})}
        self._programs.write_logging()

    def add(self, number: int, engine: Engine, role: str, settings: dict[str, str] | None = None) -> Node:
        """A node that is neither formatted nor started yet."""
        node = Node(number, engine, role, free_ports(1)[0], self.root, dict(settings or {}))
        self.nodes[number] = node
        return node

    def format(self, node: Node, *options: str) -> None:
        """Write its configuration and prepare its directory."""
        node.config.write_text("".join(f"{key}={value}\n" for key, value in self._settings(node).items()))
        self._programs.format(node.engine, node.config, *options)

    def start(self, *nodes: Node) -> None:
        """Start their processes; nobody waits until they are ready."""
        for node in nodes:
            node.process = self._programs.start(node.engine, node.config, node.output)

    def stop(self, node: Node) -> None:
        """End it as an operator does: leadership is handed over, logs are closed."""
        assert node.process is not None
        node.process.send_signal(signal.SIGTERM)
        try:
            code = node.process.wait(WITHIN_S)
        finally:
            self.kill(node)
        # A Java process says by 143 that it ended on SIGTERM.
        assert code in {0, 143}, f"{node.engine.value} {node.number} ended with {code}"

    def kill(self, node: Node) -> None:
        """End it at once."""
        if node.process is not None:
            node.process.kill()
            node.process.wait()
            node.process = None

    def signal(self, node: Node, number: signal.Signals) -> None:
        """Freeze it or let it go on."""
        assert node.process is not None
        node.process.send_signal(number)

    def end(self) -> None:
        """Kill what still runs."""
        for node in self.nodes.values():
            self.kill(node)

    def brokers(self, *, running: bool = True) -> list[Node]:
        """The brokers that run, or all."""
        return [
            node
            for node in self.nodes.values()
            if "broker" in node.role and (node.process is not None or not running)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Every broker's address."""
        return ",".join(node.address for node in self.brokers(running=False))

    def tool(self, main_class: str, *arguments: str) -> str:
        """What one of Kafka's command line tools prints; empty when it failed."""
        done = self._programs.tool(main_class, *arguments)
        return done.stdout if done.returncode == 0 else ""

    def _settings(self, node: Node) -> dict[str, str]:
        controllers = [each for each in self.nodes.values() if "controller" in each.role]
        own = "CONTROLLER" if node.role == "controller" else "PLAINTEXT"
        return {
            **self._common,
            "process.roles": node.role,
            "node.id": str(node.number),
            "log.dirs": str(node.directory),
            "listeners": f"{own}://{node.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": ",".join(f"{each.number}@{each.address}" for each in controllers),
            **node.settings,
        }
