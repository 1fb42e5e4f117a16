"""Controllers of Apache Kafka and of Tidelog in one quorum: each leads, each follows, the logs are equal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kafka.tools import MAIN_CLASSES
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
OURS = 1
TIDELOG = str(Path(sys.executable).with_name("tidelog"))
WITHIN_S = 90.0
ROUNDS_MAX = 8


class Controllers:
    """Node 1 is a Tidelog controller, the others are Kafka's; each has its directory under `root`."""

    def __init__(self, root: Path, jars: str, numbers: range) -> None:
        self.root = root
        self._java = ["java", "-Xmx200m", "-cp", f"{jars}/*"]
        self.ports = dict(zip(numbers, free_ports(len(numbers)), strict=True))
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def format(self, node: int, properties: str, *options: str) -> None:
        """Write the configuration of a node and format its directory for the cluster."""
        config = self._config(node)
        config.write_text(
            f"process.roles=controller\nnode.id={node}\nlog.dirs={self.root / str(node)}\n"
            f"listeners=CONTROLLER://127.0.0.1:{self.ports[node]}\n"
            f"controller.listener.names=CONTROLLER\n{properties}\n"
        )
        arguments = ["--cluster-id", CLUSTER_ID, "--config", str(config), *options]
        if node == OURS:
            command = [TIDELOG, "storage", "format", *arguments]
        else:
            command = [*self._java, "kafka.tools.StorageTool", "format", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=WITHIN_S)

    def start(self, node: int) -> None:
        """Start the process of a node."""
        config = str(self._config(node))
        if node == OURS:
            command = [TIDELOG, "broker", "--config", config]
        else:
            command = [*self._java, "kafka.Kafka", config]
        with (self.root / f"{node}.out").open("ab") as output:
            self._running[node] = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def stop(self, node: int) -> None:
        """Stop a node by SIGTERM, which hands over its leadership."""
        process = self._running.pop(node)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WITHIN_S)
        finally:
            process.kill()

    def kill_all(self) -> None:
        """Kill all processes at the same time."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def quorum(self, *arguments: str) -> str:
        """Return the output of `kafka-metadata-quorum` from a running node; empty without a response."""
        servers = ",".join(f"127.0.0.1:{self.ports[node]}" for node in self._running)
        command = [*self._java, MAIN_CLASSES["kafka-metadata-quorum"], "--bootstrap-controller", servers]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        return done.stdout if done.returncode == 0 else ""

    def leader(self) -> int:
        """Return the leader, as soon as all nodes have its complete log."""
        return int(self._status(r"LeaderId:\s+(\d+)", lambda lag: lag == "0"))

    def voters(self) -> list[int]:
        """Return the ids of the voters."""
        match = re.search(r"CurrentVoters:\s+(.*)", self.quorum("describe", "--status"))
        return [] if match is None else [int(number) for number in re.findall(r'"id": (\d+)', match[1])]

    def log(self, node: int) -> bytes:
        """Return the bytes of a node's metadata log."""
        path = self.root / str(node) / "__cluster_metadata-0" / "00000000000000000000.log"
        return path.read_bytes().rstrip(b"\0")

    def _status(self, pattern: str, is_settled: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + WITHIN_S
        while True:
            text = self.quorum("describe", "--status")
            match, lag = re.search(pattern, text), re.search(r"MaxFollowerLag:\s+(\d+)", text)
            if match and lag and is_settled(lag[1]):
                return match[1]
            assert time.monotonic() < deadline, f"the quorum has no leader that all nodes follow: {text}"

    def _config(self, node: int) -> Path:
        return self.root / f"{node}.properties"


def controllers(root: Path, numbers: range) -> Iterator[Controllers]:
    """Yield controllers, and kill them at the end."""
    new_controllers = Controllers(root, os.environ["TIDELOG_KAFKA_JARS"], numbers)
    try:
        yield new_controllers
    finally:
        new_controllers.kill_all()


@pytest.fixture
def three_controllers(tmp_path: Path) -> Iterator[Controllers]:
    """Run static voters: one of Tidelog, two of Kafka."""
    for new_controllers in controllers(tmp_path, range(1, 4)):
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in new_controllers.ports.items())
        for node in new_controllers.ports:
            new_controllers.format(node, f"controller.quorum.voters={voters}")
            new_controllers.start(node)
        yield new_controllers


@pytest.fixture
def two_controllers(tmp_path: Path) -> Iterator[Controllers]:
    """Run dynamic voters: Kafka's is the first one, Tidelog's joins by itself (KIP-1186)."""
    for new_controllers in controllers(tmp_path, range(1, 3)):
        servers = f"controller.quorum.bootstrap.servers=127.0.0.1:{new_controllers.ports[2]}"
        new_controllers.format(2, servers, "--standalone")
        new_controllers.start(2)
        joining_settings = f"{servers}\ncontroller.quorum.auto.join.enable=true"
        new_controllers.format(OURS, joining_settings, "--no-initial-controllers")
        new_controllers.start(OURS)
        yield new_controllers


def test_metadata_logs_are_equal_after_leadership_moved_from_kafka_to_tidelog_and_back(
    three_controllers: Controllers,
) -> None:
    leaders = set()
    for _ in range(ROUNDS_MAX):
        leader = three_controllers.leader()
        leaders.add(leader)
        if OURS in leaders and leader != OURS and len(leaders) > 1:
            break
        three_controllers.stop(leader)
        three_controllers.start(leader)
    assert OURS in leaders and len(leaders) > 1, f"leaders: {leaders}"
    three_controllers.kill_all()
    logs = [three_controllers.log(node) for node in three_controllers.ports]
    shortest = min(len(log) for log in logs)
    assert shortest > 1000
    assert all(log[:shortest] == logs[0][:shortest] for log in logs)


def test_a_cluster_moves_from_kafkas_controller_to_tidelogs(two_controllers: Controllers) -> None:
    wait_until(lambda: two_controllers.voters() == [1, 2], "voter of ours", timeout_s=WITHIN_S)
    replication = two_controllers.quorum("describe", "--replication")
    directory = next(line.split()[1] for line in replication.splitlines() if line.split()[0] == "2")
    two_controllers.quorum(
        "remove-controller", "--controller-id", "2", "--controller-directory-id", directory
    )
    wait_until(lambda: two_controllers.voters() == [OURS], "removal of Kafka's voter", timeout_s=WITHIN_S)
    two_controllers.stop(2)
    assert two_controllers.leader() == OURS
