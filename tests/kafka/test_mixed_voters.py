"""Two controllers of Tidelog and one of Apache Kafka are the quorum of a cluster with brokers of both."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.kafka_node import METADATA_LOG, MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import MAIN_CLASSES
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until

ROUNDS_MAX = 8
# Kafka searches for old snapshots once a minute.
CLEANUP_S = 150.0
SETTINGS = {
    "metadata.max.retention.bytes": "20000",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
}


class Voters:
    """The controllers of a cluster whose brokers are 1 (Tidelog's) and 3 (Apache Kafka's)."""

    def __init__(self, root: Path) -> None:
        self.cluster = MixedCluster(root)
        self.clients = MixedClients(self.cluster)
        self._topics = 0

    @property
    def controllers(self) -> list[Node]:
        """Return all controllers."""
        return [node for node in self.cluster.nodes.values() if node.role == "controller"]

    def quorum(self, *arguments: str) -> str:
        """Return the output of `kafka-metadata-quorum` from a running controller."""
        servers = ",".join(node.address for node in self.controllers if node.process is not None)
        return self.cluster.tool(
            MAIN_CLASSES["kafka-metadata-quorum"], "--bootstrap-controller", servers, *arguments
        )

    def leader(self) -> Node:
        """Return the leader, as soon as a running controller leads."""
        leaders: list[Node] = []

        def is_leader() -> bool:
            text = re.search(r"LeaderId:\s+(\d+)", self.quorum("describe", "--status"))
            leaders[:] = [self.cluster.nodes[int(text[1])]] if text else []
            return bool(leaders) and leaders[0].process is not None

        wait_until(is_leader, timeout_s=WITHIN_S)
        return leaders[0]

    def members(self) -> set[int]:
        """Return the ids of the voters."""
        match = re.search(r"CurrentVoters:\s+(.*)", self.quorum("describe", "--status"))
        return set() if match is None else {int(number) for number in re.findall(r'"id": (\d+)', match[1])}

    def directory_id(self, node: Node) -> str:
        """Return the directory id of a controller's metadata log, as reported by the quorum."""
        lines = [line.split() for line in self.quorum("describe", "--replication").splitlines()]
        return next(line[1] for line in lines if line and line[0] == str(node.number))

    def make_topics(self, count: int = 1) -> None:
        """Change the metadata, and wait until every broker has the change."""
        for _ in range(count):
            self._topics += 1
            self.clients.create_topic(f"topic-{self._topics}", [[1, 3], [3, 1]])


@pytest.fixture
def voters(tmp_path: Path) -> Iterator[Voters]:
    """Run static voters and the brokers."""
    fixture = Voters(tmp_path)
    fixture.cluster.add(100, Engine.KAFKA, "controller", SETTINGS)
    fixture.cluster.add(101, Engine.TIDELOG, "controller", SETTINGS)
    fixture.cluster.add(102, Engine.TIDELOG, "controller", SETTINGS)
    fixture.cluster.add(1, Engine.TIDELOG, "broker")
    fixture.cluster.add(3, Engine.KAFKA, "broker")
    try:
        for node in fixture.cluster.nodes.values():
            fixture.cluster.format(node)
        fixture.cluster.start(*fixture.cluster.nodes.values())
        fixture.clients.wait_for_brokers(1, 3)
        yield fixture
    finally:
        fixture.cluster.end()


def test_killed_leaders_are_replaced_by_voters_of_the_other_implementation(voters: Voters) -> None:
    engines: list[Engine] = []
    for _ in range(ROUNDS_MAX):
        leader = voters.leader()
        engines.append(leader.engine)
        if set(engines) == set(Engine) and len(engines) > 2 and engines[-1] is not engines[-2]:
            break
        voters.make_topics()
        voters.cluster.kill(leader)
        voters.make_topics()
        voters.cluster.start(leader)
    assert set(engines) == set(Engine), f"leaders: {engines}"
    voters.make_topics()
    voters.clients.produce("topic-1", [str(number) for number in range(100)], 2)


@pytest.mark.parametrize("number", [100, 101], ids=["Apache Kafka", "Tidelog"])
def test_an_empty_voter_loads_a_snapshot_of_the_leader(voters: Voters, number: int) -> None:
    empty = voters.cluster.nodes[number]
    while voters.leader().engine is empty.engine:
        voters.cluster.stop(leader := voters.leader())
        voters.make_topics()
        voters.cluster.start(leader)
    leader = voters.leader()
    voters.make_topics(20)
    oldest = min((leader.directory / METADATA_LOG).glob("*.checkpoint"))
    # The old snapshot is removed when the log begins with a later one.
    wait_until(lambda: not oldest.exists(), timeout_s=CLEANUP_S)
    voters.cluster.stop(empty)
    shutil.rmtree(empty.directory)
    voters.cluster.format(empty)
    voters.cluster.start(empty)
    metadata_log = empty.directory / METADATA_LOG
    wait_until(lambda: any(path.stem > f"{0:020}" for path in metadata_log.glob("*.log")), timeout_s=WITHIN_S)
    assert list(metadata_log.glob("*.checkpoint"))
    voters.make_topics()
    assert re.search(rf"^{number}\s", voters.quorum("describe", "--replication"), re.MULTILINE)


def test_the_quorum_moves_from_a_tidelog_controller_to_a_kafka_controller(tmp_path: Path) -> None:
    voters = Voters(tmp_path)
    cluster = voters.cluster
    ours = cluster.add(101, Engine.TIDELOG, "controller")
    kafkas = cluster.add(100, Engine.KAFKA, "controller")
    broker = cluster.add(1, Engine.TIDELOG, "broker")
    cluster.add(3, Engine.KAFKA, "broker")
    servers = {"controller.quorum.bootstrap.servers": f"{ours.address},{kafkas.address}"}
    for node in cluster.nodes.values():
        node.settings |= {"controller.quorum.voters": "", **servers}
    try:
        cluster.format(ours, "--standalone")
        cluster.format(kafkas, "--no-initial-controllers")
        for node in cluster.brokers(running=False):
            cluster.format(node)
        cluster.start(*cluster.nodes.values())
        voters.clients.wait_for_brokers(1, 3)
        voters.make_topics()
        wait_until(lambda: "100" in voters.quorum("describe", "--replication"), timeout_s=WITHIN_S)
        added = cluster.tool(
            MAIN_CLASSES["kafka-metadata-quorum"],
            *("--bootstrap-controller", ours.address),
            *("--command-config", str(kafkas.config), "add-controller"),
        )
        assert "Added controller 100" in added, added
        assert voters.members() == {100, 101}
        voters.quorum(
            *("remove-controller", "--controller-id", "101"),
            *("--controller-directory-id", voters.directory_id(ours)),
        )
        wait_until(lambda: voters.members() == {100}, timeout_s=WITHIN_S)
        assert voters.leader() is kafkas
        cluster.stop(ours)
        voters.make_topics()
        cluster.stop(broker)
        cluster.start(broker)
        voters.clients.wait_for_brokers(1, 3)
    finally:
        cluster.end()
