"""Levels of metadata.version: records have Kafka's versions, and Kafka reads them after a downgrade."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kafka.kafka_node import METADATA_LOG, MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until
from tidelog.cluster.controller.update_features import LEVELS_WITH_CHANGED_RECORDS
from tidelog.cluster.features import METADATA_VERSION, SUPPORTED_FEATURES
from tidelog.cluster.record_versions import record_version
from tidelog.local_cluster.ports import free_ports
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.register_broker_record import RegisterBrokerRecord

PROGRAM = Path(__file__).parent / "MetadataVersions.java"
JARS = Path(os.environ["TIDELOG_KAFKA_JARS"])
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}
RECORDS = ["first", "second", "third"]
WRITTEN_BY_BOTH = ("REGISTER_BROKER_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "TOPIC_RECORD")


def test_the_versions_of_records_are_kafkas_at_every_level() -> None:
    done = subprocess.run(
        ["java", "-cp", f"{JARS}/*", str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    supported = SUPPORTED_FEATURES[METADATA_VERSION]
    assert [int(row[0]) for row in rows] == list(range(supported.lowest, supported.highest + 1))
    assert {int(row[0]) for row in rows if row[1] == "true"} == LEVELS_WITH_CHANGED_RECORDS
    for level, _, *versions in rows:
        records = (RegisterBrokerRecord(), PartitionRecord(), PartitionChangeRecord())
        assert [record_version(record, int(level)) for record in records] == list(map(int, versions))


@pytest.mark.parametrize(
    ("release", "lower", "lower_release", "refused"),
    [
        ("3.7-IV1", 15, "3.7-IV0", 14),
        ("3.9-IV0", 17, "3.7-IV2", 16),
        ("4.0-IV3", 23, "4.0-IV1", 22),
        ("4.2-IV1", 25, "4.0-IV3", 22),
    ],
)
def test_kafkas_controller_continues_the_log_of_tidelogs_after_a_downgrade(
    tmp_path: Path, release: str, lower: int, lower_release: str, refused: int
) -> None:
    versions = {}
    for engine in (Engine.KAFKA, Engine.TIDELOG):
        directory = tmp_path / engine.name
        directory.mkdir()
        cluster, node = create_node(directory, release)
        try:
            versions[engine] = work_at_lower_level(cluster, node, engine, lower, refused)
            if engine is Engine.TIDELOG:
                continue_with_kafka(cluster, node, lower_release)
        finally:
            cluster.end()
    assert versions[Engine.TIDELOG] == versions[Engine.KAFKA]


def create_node(directory: Path, release: str) -> tuple[MixedCluster, Node]:
    """Format the directory of a broker and controller with a level of metadata.version."""
    cluster = MixedCluster(directory, settings=SETTINGS)
    node = cluster.add(1, Engine.KAFKA, "broker,controller")
    (port,) = free_ports(1)
    controller = f"127.0.0.1:{port}"
    node.settings["listeners"] = f"PLAINTEXT://{node.address},CONTROLLER://{controller}"
    node.settings["controller.quorum.voters"] = f"1@{controller}"
    cluster.format(node, "--release-version", release)
    return cluster, node


def work_at_lower_level(
    cluster: MixedCluster, node: Node, engine: Engine, lower: int, refused: int
) -> dict[str, set[int]]:
    """Downgrade, change the metadata, restart; return the versions of each type in log and snapshots."""
    clients, tools = MixedClients(cluster), KafkaTools(JARS, node.address)
    node.engine = engine
    cluster.start(node)
    clients.wait_for_brokers(1)
    clients.create_topic("before", [[1]])
    for level, code in ((refused, 1), (lower, 0)):
        done = tools.call("kafka-features", "downgrade", "--feature", f"{METADATA_VERSION}={level}")
        assert done.returncode == code, done.stdout + done.stderr
    clients.create_topic("after", [[1], [1]])
    clients.produce("after", RECORDS)
    cluster.stop(node)
    cluster.start(node)
    clients.wait_for_brokers(1)
    for number in range(4):
        clients.create_topic(f"more-{number}", [[1]] * 3)
    wait_until(lambda: list(metadata_files(node, "checkpoint")), timeout_s=WITHIN_S)
    cluster.stop(node)
    return dumped_versions(tools, node)


def continue_with_kafka(cluster: MixedCluster, node: Node, release: str) -> None:
    """Start Apache Kafka on the same directories; everything is there, and it can be upgraded."""
    node.engine = Engine.KAFKA
    cluster.start(node)
    clients, tools = MixedClients(cluster), KafkaTools(JARS, node.address)
    clients.wait_for_brokers(1)
    assert finalized_level(tools) == release
    assert clients.read("after", len(RECORDS)) == RECORDS
    topics = {"before", "after", *(f"more-{number}" for number in range(4))}
    assert topics <= set(clients.admin().list_topics(timeout=WITHIN_S).topics)
    tools.run("kafka-features", "upgrade", "--feature", f"{METADATA_VERSION}=30")
    assert finalized_level(tools) == "4.3-IV0"
    clients.create_topic("upgraded", [[1]])


def finalized_level(tools: KafkaTools) -> str:
    """Return the level of metadata.version that `kafka-features` shows."""
    lines = tools.run("kafka-features", "describe").splitlines()
    (line,) = (line for line in lines if METADATA_VERSION in line)
    words = line.split()
    return words[words.index("FinalizedVersionLevel:") + 1]


def metadata_files(node: Node, suffix: str) -> list[Path]:
    """Return the segments or the snapshots of the metadata log, without those of the storage tool."""
    return sorted((node.directory / METADATA_LOG).glob(f"*.{suffix}"))


def dumped_versions(tools: KafkaTools, node: Node) -> dict[str, set[int]]:
    """Return the versions of the records that `kafka-dump-log` shows, by type."""
    versions: dict[str, set[int]] = {}
    for path in (*metadata_files(node, "log"), *metadata_files(node, "checkpoint")):
        text = tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path))
        for line in text.splitlines():
            _, mark, payload = line.partition("payload: ")
            if mark:
                record = json.loads(payload)
                versions.setdefault(record["type"], set()).add(record["version"])
    return {name: versions[name] for name in WRITTEN_BY_BOTH}
