"""Brokers of Tidelog and of Apache Kafka in one cluster, with a controller of each kind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from tests.kafka.kafka_node import MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until

# Every broker is the leader of one partition.
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
TOPIC = ConfigResource.Type.TOPIC
BROKER = ConfigResource.Type.BROKER


@dataclass(slots=True)
class MixedNodes:
    """Controller 100; brokers 1 and 2 are Tidelog's, broker 3 is Apache Kafka's."""

    cluster: MixedCluster
    clients: MixedClients
    controller: Node
    brokers: list[Node]

    def logs(self, partition: str) -> list[bytes]:
        """Return the bytes of all replicas."""
        return [broker.log_bytes(partition) for broker in self.brokers]

    def _are_equal(self, partition: str) -> bool:
        return len(set(self.logs(partition))) == 1

    def wait_until_equal(self, topic: str, partitions: int = 3) -> None:
        """Wait until all replicas of each partition have the same bytes."""
        for index in range(partitions):
            wait_until(partial(self._are_equal, f"{topic}-{index}"), timeout_s=WITHIN_S)
            assert self.logs(f"{topic}-{index}")[0] != b""

    def return_of(self, node: Node, topic: str) -> None:
        """Restart a broker and wait until its replicas are in sync."""
        self.cluster.start(node)
        self.clients.wait_for_brokers(1, 2, 3)
        self.clients.wait_until_whole(topic)


@pytest.fixture(scope="module", params=list(Engine), ids=["under-Kafka", "under-Tidelog"])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedNodes]:
    """Run the cluster."""
    cluster = MixedCluster(tmp_path_factory.mktemp("mixed"))
    controller = cluster.add(100, request.param, "controller")
    brokers = [
        cluster.add(1, Engine.TIDELOG, "broker"),
        cluster.add(2, Engine.TIDELOG, "broker"),
        cluster.add(3, Engine.KAFKA, "broker"),
    ]
    try:
        for node in (controller, *brokers):
            cluster.format(node)
        cluster.start(controller, *brokers)
        clients = MixedClients(cluster)
        clients.wait_for_brokers(1, 2, 3)
        yield MixedNodes(cluster, clients, controller, brokers)
    finally:
        cluster.end()


def is_returned(query: Callable[[], object], expected: object) -> bool:
    return query() == expected


def is_empty(folder: Path, pattern: str) -> bool:
    return not list(folder.glob(pattern))


def test_every_broker_leads_and_all_logs_are_equal(mixed: MixedNodes) -> None:
    mixed.clients.create_topic("tides", ASSIGNMENT, min_insync_replicas="2")
    values = [f"value {number}" for number in range(3000)]
    mixed.clients.produce("tides", values, 3)
    assert sorted(mixed.clients.read("tides", 3000, 3)) == sorted(values)
    mixed.wait_until_equal("tides")


def test_configs_changed_at_one_broker_apply_to_all(mixed: MixedNodes) -> None:
    mixed.clients.create_topic("configured", ASSIGNMENT)
    for contacted in mixed.brokers:
        expected_value = str(1_000_000 + contacted.number)
        mixed.clients.set_config(TOPIC, "configured", "retention.ms", expected_value, contacted)
        mixed.clients.set_config(BROKER, str(contacted.number), "log.retention.ms", expected_value, contacted)
        for other in mixed.brokers:
            topic_config = partial(mixed.clients.config, TOPIC, "configured", "retention.ms", other)
            wait_until(partial(is_returned, topic_config, expected_value), timeout_s=WITHIN_S)
        broker_config = partial(
            mixed.clients.config, BROKER, str(contacted.number), "log.retention.ms", contacted
        )
        wait_until(partial(is_returned, broker_config, expected_value), timeout_s=WITHIN_S)


def test_a_deleted_topic_is_removed_from_every_directory(mixed: MixedNodes) -> None:
    for contacted in mixed.brokers:
        mixed.clients.create_topic("short", ASSIGNMENT)
        mixed.clients.produce("short", ["a", "b", "c"], 3)
        mixed.clients.delete_topic("short", contacted)
        for broker in mixed.brokers:
            wait_until(partial(is_empty, broker.directory, "short-*"), timeout_s=WITHIN_S)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_each_broker_stops_and_returns_without_loss(mixed: MixedNodes, clean: bool) -> None:
    name = "stopped" if clean else "killed"
    mixed.clients.create_topic(name, ASSIGNMENT, min_insync_replicas="2")
    written = [f"before {number}" for number in range(300)]
    mixed.clients.produce(name, written, 3)
    for broker in mixed.brokers:
        (mixed.cluster.stop if clean else mixed.cluster.kill)(broker)
        for index in range(3):
            mixed.clients.wait_for_leader_other_than(broker, name, index)
        meanwhile = [f"without {broker.number}: {number}" for number in range(300)]
        mixed.clients.produce(name, meanwhile, 3)
        written += meanwhile
        mixed.return_of(broker, name)
    assert sorted(mixed.clients.read(name, len(written), 3)) == sorted(written)
    mixed.wait_until_equal(name)


@pytest.mark.parametrize("number", [1, 3], ids=["Tidelog", "Apache Kafka"])
def test_unreplicated_records_are_truncated_when_their_leader_returns(mixed: MixedNodes, number: int) -> None:
    name = f"cut-{number}"
    replicas = [number, *(broker.number for broker in mixed.brokers if broker.number != number)]
    mixed.clients.create_topic(name, [replicas])
    mixed.clients.produce(name, [f"everywhere {each}" for each in range(100)])
    leader = mixed.cluster.nodes[number]
    followers = [broker for broker in mixed.brokers if broker is not leader]
    wait_until(lambda: len(set(mixed.logs(f"{name}-0"))) == 1, timeout_s=WITHIN_S)
    for follower in followers:
        mixed.cluster.signal(follower, signal.SIGSTOP)
    # The first records complete the fetches that wait at the leader; the later ones are not fetched.
    mixed.clients.produce(name, ["perhaps everywhere"], acks="1")
    mixed.clients.produce(name, [f"unreplicated {each}" for each in range(50)], acks="1")
    longest = leader.log_bytes(f"{name}-0")
    mixed.cluster.kill(leader)
    for follower in followers:
        mixed.cluster.signal(follower, signal.SIGCONT)
    mixed.clients.wait_for_leader_other_than(leader, name)
    mixed.clients.produce(name, ["instead"])
    mixed.return_of(leader, name)
    mixed.wait_until_equal(name, 1)
    assert not leader.log_bytes(f"{name}-0").startswith(longest)
    assert b"nowhere else" not in leader.log_bytes(f"{name}-0")


@pytest.mark.parametrize("number", [1, 3], ids=["Tidelog", "Apache Kafka"])
def test_kafkas_tools_reach_the_controller_through_any_broker(mixed: MixedNodes, number: int) -> None:
    name = f"moved-{number}"
    mixed.clients.create_topic(name, [[1, 2], [3, 1]])
    mixed.clients.produce(name, [str(each) for each in range(200)], 2)
    tools = KafkaTools(Path(os.environ["TIDELOG_KAFKA_JARS"]), mixed.cluster.nodes[number].address)
    assert re.search(r"LeaderId:\s+100", tools.run("kafka-metadata-quorum", "describe", "--status"))
    moves = mixed.cluster.root / f"{name}.json"
    placement = [[3, 2], [2, 1]]
    partitions = [
        {"topic": name, "partition": index, "replicas": list(to)} for index, to in enumerate(placement)
    ]
    moves.write_text(json.dumps({"version": 1, "partitions": partitions}))
    tools.run("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(moves))

    def has_moved() -> bool:
        partitions = [mixed.clients.partition(name, index) for index in range(2)]
        return all(
            partition is not None and partition.replicas == replicas and set(partition.isrs) == set(replicas)
            for partition, replicas in zip(partitions, placement, strict=True)
        )

    wait_until(has_moved, timeout_s=WITHIN_S)
    which = ("--topic", name, "--partition", "0")
    tools.call("kafka-leader-election", "--election-type", "preferred", *which)
    wait_until(lambda: mixed.clients.leader(name).number == 3, timeout_s=WITHIN_S)
    assert len(mixed.clients.read(name, 200, 2)) == 200
    first, second = (mixed.cluster.nodes[each].log_bytes(f"{name}-0") for each in placement[0])
    assert first == second != b""


def test_group_offsets_are_kept_when_the_coordinator_moves_to_the_other_implementation(
    mixed: MixedNodes,
) -> None:
    mixed.clients.create_topic("grouped", ASSIGNMENT)
    mixed.clients.produce("grouped", [str(number) for number in range(300)], 3)
    groups = [f"group {number}" for number in range(6)]
    for group in groups:
        assert len(mixed.clients.read_as_group(group, "grouped", 300)) == 300
    mixed.clients.wait_until_whole("__consumer_offsets")
    for broker in mixed.brokers:
        mixed.cluster.stop(broker)
        for group in groups:
            assert mixed.clients.committed_offsets(group, "grouped", 3) == [100, 100, 100]
        mixed.return_of(broker, "__consumer_offsets")
    for group in groups:
        assert mixed.clients.committed_offsets(group, "grouped", 3) == [100, 100, 100]


@pytest.mark.parametrize("number", [2, 3], ids=["Tidelog", "Apache Kafka"])
def test_an_empty_broker_loads_a_snapshot_and_fetches_all_records(mixed: MixedNodes, number: int) -> None:
    name = f"whole-{number}"
    mixed.clients.create_topic(name, ASSIGNMENT)
    mixed.clients.produce(name, [str(each) for each in range(300)], 3)
    assert list((mixed.controller.directory / "__cluster_metadata-0").glob("*.checkpoint"))
    broker = mixed.cluster.nodes[number]
    mixed.cluster.stop(broker)
    shutil.rmtree(broker.directory)
    mixed.cluster.format(broker)
    mixed.return_of(broker, name)
    mixed.wait_until_equal(name)


def test_brokers_continue_after_a_restart_of_the_controller(mixed: MixedNodes) -> None:
    mixed.clients.create_topic("before", ASSIGNMENT)
    mixed.cluster.kill(mixed.controller)
    # The controller assigns the ids of idempotent producers.
    mixed.clients.produce("before", [str(each) for each in range(300)], 3, acks="1")
    mixed.cluster.start(mixed.controller)
    mixed.clients.create_topic("after", ASSIGNMENT)
    mixed.clients.produce("after", [str(each) for each in range(300)], 3)
    mixed.wait_until_equal("before")
    mixed.wait_until_equal("after")


def test_kafka_and_tidelog_continue_with_each_others_log_directory(mixed: MixedNodes) -> None:
    mixed.clients.create_topic("swapped", ASSIGNMENT)
    written = [f"before {each}" for each in range(300)]
    mixed.clients.produce("swapped", written, 3)
    for turn in ("there", "back"):
        for node in (mixed.brokers[1], mixed.brokers[2], mixed.controller):
            mixed.cluster.stop(node)
            node.engine = Engine.TIDELOG if node.engine is Engine.KAFKA else Engine.KAFKA
            mixed.return_of(node, "swapped")
            more = [f"{turn} {node.number}: {each}" for each in range(300)]
            mixed.clients.produce("swapped", more, 3)
            written += more
        mixed.clients.create_topic(f"made-{turn}", ASSIGNMENT)
    assert sorted(mixed.clients.read("swapped", len(written), 3)) == sorted(written)
    mixed.wait_until_equal("swapped")
