"""One directory by turns under Tidelog and under Apache Kafka: metadata log, snapshots, records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TIDELOG = str(Path(sys.executable).with_name("tidelog"))
WITHIN_S = 90.0


class Node:
    """A node that is broker and controller, whose processes take turns."""

    def __init__(self, root: Path, jars: str, settings: str = "") -> None:
        self.data = root / "data"
        self._config = root / "server.properties"
        self._jars = jars
        self._output = root / "output"
        client_port, controller_port = free_ports(2)
        self.tools = KafkaTools(Path(jars), f"127.0.0.1:{client_port}")
        self._config.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"log.dirs={self.data}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            # A snapshot every few topics.
            "metadata.log.max.record.bytes.between.snapshots=3000\n" + settings
        )

    def format(self) -> None:
        options = ["-c", str(self._config), "-t", CLUSTER_ID, "--standalone"]
        subprocess.run([TIDELOG, "storage", "format", *options], check=True, timeout=WITHIN_S)

    @contextmanager
    def under(self, whose: str) -> Iterator[KafkaTools]:
        """Run it, and end it in order; the tools ask it meanwhile."""
        java = ["java", "-Xmx300m", "-cp", f"{self._jars}/*", "kafka.Kafka"]
        start = java if whose == "kafka" else [TIDELOG, "broker", "--config"]
        with self._output.open("ab") as output:
            process = subprocess.Popen([*start, str(self._config)], stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until(
                lambda: self.tools.call("kafka-topics", "--list").returncode == 0,
                f"answer of {whose}",
                timeout_s=WITHIN_S,
            )
            yield self.tools
            process.send_signal(signal.SIGTERM)
            process.wait(WITHIN_S)
        finally:
            process.kill()
            process.wait()

    def snapshots(self) -> set[str]:
        return {path.name for path in (self.data / "__cluster_metadata-0").glob("*.checkpoint")}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, os.environ["TIDELOG_KAFKA_JARS"])


def create(tools: KafkaTools, *names: str) -> None:
    for name in names:
        tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "5")


def topics(tools: KafkaTools) -> set[str]:
    return set(tools.run("kafka-topics", "--list").split())


def test_kafka_continues_with_our_metadata_directory_and_we_with_kafkas(node: Node) -> None:
    node.format()
    with node.under("tidelog") as tools:
        create(tools, "a", "b", "c", "d")
        tools.run("kafka-console-producer", "--topic", "a", stdin="ours\n")
    ours = node.snapshots()
    assert len(ours) > 1
    with node.under("kafka") as tools:
        assert topics(tools) >= {"a", "b", "c", "d"}
        create(tools, "e", "f", "g")
        tools.run("kafka-console-producer", "--topic", "a", stdin="kafka's\n")
    assert node.snapshots() - ours
    with node.under("tidelog") as tools:
        assert topics(tools) >= {"a", "b", "c", "d", "e", "f", "g"}
        create(tools, "h")
        status = tools.run("kafka-metadata-quorum", "describe", "--status")
        assert "LeaderEpoch:            3" in status
        options = ["--topic", "a", "--from-beginning", "--max-messages", "2"]
        read = tools.run("kafka-console-consumer", *options)
        assert sorted(read.split("\n")) == ["", "kafka's", "ours"]
