"""Kafka's own tools with a Tidelog cluster whose topics are in remote storage."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka.conftest import JARS, SETTINGS
from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.tiering import QUICK_TIERING, TIER_FOLDER, tiered_settings

WITHIN_S = 60.0
NODES = (1, 2, 3)
METADATA_TOPIC = "__remote_log_metadata"
SEGMENT_BYTES = 1 << 20
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "local.retention.ms": "-1",
}


class Tier:
    """Three nodes with a directory as bucket, and Kafka's tools."""

    def __init__(self, folder: Path, jars: Path) -> None:
        self.folder = folder
        settings = {**tiered_settings(folder, len(NODES), {}), **QUICK_TIERING, **SETTINGS}
        self.cluster = LocalCluster.create(folder / "cluster", len(NODES), settings=settings)
        self.tools = KafkaTools(jars, self.cluster.bootstrap_servers)

    def create(self, topic: str, assignment: str = "1:2:3", **changed: str) -> None:
        """Create a tiered topic."""
        configs = {**TIERED, **{key.replace("_", "."): value for key, value in changed.items()}}
        options = [part for key, value in configs.items() for part in ("--config", f"{key}={value}")]
        self.tools.run(
            "kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment, *options
        )

    def produce(self, topic: str, count: int) -> list[str]:
        """Write `count` values of a kilobyte, idempotently."""
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )
        values = [f"{number} ".ljust(1000, "x") for number in range(count)]
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(WITHIN_S) == 0
        return values

    def offset(self, topic: str, time: int) -> int:
        """Return the offset that `kafka-get-offsets --time` prints for partition 0."""
        (line,) = self.tools.run("kafka-get-offsets", "--topic", topic, "--time", str(time)).split()
        return int(line.rsplit(":", 1)[1])

    def replica(self, node: int, topic: str) -> Path:
        """Return a node's directory of partition 0."""
        return self.cluster.layout.data_folder(node) / f"{topic}-0"

    def wait_until_tiered(self, topic: str, nodes: tuple[int, ...] = NODES) -> int:
        """Wait until these nodes have only the active segment; return its base offset."""

        def names() -> list[list[str]]:
            return [sorted(path.name for path in self.replica(node, topic).glob("*.log")) for node in nodes]

        def is_tiered() -> bool:
            files = names()
            return all(each == files[0] and len(each) == 1 for each in files) and files[0] != [f"{0:020}.log"]

        wait_until(is_tiered, timeout_s=WITHIN_S)
        return int(Path(names()[0][0]).stem)

    def objects(self, topic: str) -> set[str]:
        """Return the objects of a topic."""
        # Unlike rglob, os.walk tolerates directories that are removed meanwhile.
        walk = os.walk(self.folder / TIER_FOLDER)
        return {name for folder, _, names in walk for name in names if f"/{topic}-" in folder}

    def metadata_records(self, topic: str) -> list[str]:
        """Return every record of the metadata topic about a topic, as decoded by Kafka, in order."""
        paths: dict[str, Path] = {}
        for node in NODES:
            for path in self.cluster.layout.data_folder(node).glob(f"{METADATA_TOPIC}-*/*.log"):
                best = paths.setdefault(path.parent.name, path)
                paths[path.parent.name] = max(best, path, key=lambda each: each.stat().st_size)
        files = ",".join(str(path) for path in paths.values() if path.stat().st_size)
        text = self.tools.run("kafka-dump-log", "--remote-log-metadata-decoder", "--files", files)
        assert "Could not deserialize" not in text
        return [line for line in text.splitlines() if f":{topic}-0" in line]


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    assert JARS is not None
    new_tier = Tier(tmp_path_factory.mktemp("tiered-tools"), Path(JARS))
    try:
        new_tier.cluster.start()
        yield new_tier
    finally:
        new_tier.cluster.remove()


def test_list_offsets_and_reads_across_the_local_log_start(tier: Tier) -> None:
    tier.create("tides")
    values = tier.produce("tides", 6000)
    border = tier.wait_until_tiered("tides")
    end = tier.offset("tides", -1)
    assert border < end
    assert tier.offset("tides", -2) == 0
    assert tier.offset("tides", -4) == border
    assert tier.offset("tides", -5) == border - 1
    assert tier.offset("tides", -6) == border
    # The first record: its timestamp is in the tier only.
    assert tier.offset("tides", 0) == 0
    whole = ("--topic", "tides", "--partition", "0", "--offset", "0", "--timeout-ms", "30000")
    for isolation in ("read_committed", "read_uncommitted"):
        options = ("--isolation-level", isolation, "--max-messages", "6000")
        assert tier.tools.run("kafka-console-consumer", *whole, *options).splitlines() == values


def test_kafkas_verifiable_consumer_group_reads_across_the_local_log_start(tier: Tier) -> None:
    tier.create("verified")
    tier.produce("verified", 3000)
    tier.wait_until_tiered("verified")
    options = ("--topic", "verified", "--group-id", "verifiers", "--max-messages", "3000")
    printed = tier.tools.run("kafka-verifiable-consumer", *options, "--reset-policy", "earliest")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    read = sum(event["count"] for event in events if event["name"] == "records_consumed")
    assert read == 3000


def test_configs_of_tiered_topics_are_set_described_and_refused(tier: Tier) -> None:
    tier.create("set", retention_ms="5000", local_retention_ms="4000")
    topic = ("--entity-type", "topics", "--entity-name", "set")

    def alter(*options: str) -> str:
        done = tier.tools.call("kafka-configs", "--alter", *topic, *options)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    described = tier.tools.run("kafka-configs", "--describe", *topic)
    assert "remote.storage.enable=true" in described and "local.retention.ms=4000" in described
    assert alter("--add-config", "local.retention.ms=3000") == ""
    assert "local.retention.ms" in alter("--add-config", "local.retention.ms=6000")
    assert "InvalidConfigurationException" in alter("--add-config", "cleanup.policy=compact")
    assert "InvalidConfigurationException" in alter("--add-config", "remote.storage.enable=false")
    assert (
        alter("--add-config", "remote.log.copy.disable=true,local.retention.ms=-2,local.retention.bytes=-2")
        == ""
    )
    off = "remote.storage.enable=false,remote.log.delete.on.disable=true"
    assert alter("--add-config", off) == ""
    compacted = ("--config", "cleanup.policy=compact", "--config", "remote.storage.enable=true")
    create = ("kafka-topics", "--create", "--topic", "compacted", "--partitions", "1", *compacted)
    result = tier.tools.call(*create)
    assert result.returncode != 0 and "remote.storage.enable=true" in result.stdout


def test_delete_records_deletes_remote_and_local_records(tier: Tier, tmp_path: Path) -> None:
    tier.create("cut")
    tier.produce("cut", 4000)
    border = tier.wait_until_tiered("cut")
    for cut in (border // 2, border + 10):
        plan = tmp_path / "cut.json"
        plan.write_text(
            json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": cut}]})
        )
        assert f"low_watermark: {cut}" in tier.tools.run(
            "kafka-delete-records", "--offset-json-file", str(plan)
        )
        assert tier.offset("cut", -2) == cut
        assert tier.offset("cut", -4) == max(cut, border)
    wait_until(lambda: not tier.objects("cut"), timeout_s=WITHIN_S)


def test_kafka_reads_tidelogs_remote_log_metadata(tier: Tier) -> None:
    tier.create("metadata_records", local_retention_bytes="-2")
    tier.produce("metadata_records", 4000)
    wait_until(lambda: tier.offset("metadata_records", -5) > 0, timeout_s=WITHIN_S)
    closed = sorted(tier.replica(1, "metadata_records").glob("*.log"))[:-1]
    bases = [int(path.stem) for path in closed]
    sizes = [path.stat().st_size for path in closed]
    wait_until(lambda: tier.offset("metadata_records", -5) > bases[-1], timeout_s=WITHIN_S)
    end = tier.offset("metadata_records", -5)
    tier.tools.run("kafka-topics", "--delete", "--topic", "metadata_records")
    wait_until(lambda: not tier.objects("metadata_records"), timeout_s=WITHIN_S)
    wait_until(
        lambda: any(
            "DELETE_PARTITION_FINISHED" in line for line in tier.metadata_records("metadata_records")
        ),
        timeout_s=WITHIN_S,
    )
    metadata_records = tier.metadata_records("metadata_records")
    begun = [fields(line) for line in metadata_records if "RemoteLogSegmentMetadata{" in line]
    assert [int(each["startOffset"]) for each in begun] == bases
    assert [int(each["endOffset"]) for each in begun] == [*(base - 1 for base in bases[1:]), end]
    assert [int(each["segmentSizeInBytes"]) for each in begun] == sizes
    for each, base in zip(begun, bases, strict=True):
        assert (each["state"], each["brokerId"]) == ("COPY_SEGMENT_STARTED", "1")
        assert (each["segmentLeaderEpochs"], each["txnIdxEmpty"]) == (f"{{0={base}}}", "true")
        steps = [
            fields(line)["state"] for line in metadata_records if "Update{" in line and each["id"] in line
        ]
        # Brokers that continue each other's deletion may report a state repeatedly.
        assert list(dict.fromkeys(steps)) == [
            "COPY_SEGMENT_FINISHED",
            "DELETE_SEGMENT_STARTED",
            "DELETE_SEGMENT_FINISHED",
        ]
    steps = [fields(line)["state"] for line in metadata_records if "RemotePartitionDeleteMetadata{" in line]
    assert list(dict.fromkeys(steps)) == [
        f"DELETE_PARTITION_{step}" for step in ("MARKED", "STARTED", "FINISHED")
    ]


def fields(line: str) -> dict[str, str]:
    """Return the fields of a record of the metadata topic, as printed by Kafka."""
    payload = line[line.index("payload: ") :]
    return dict(re.findall(r"(\w+)=(\{[^{}]*\}|[^,{}\[\]]+)", payload))


def test_kafka_reads_the_files_of_a_follower_restored_from_the_tier(tier: Tier, tmp_path: Path) -> None:
    tier.create("built", "1")
    tier.produce("built", 4000)
    border = tier.wait_until_tiered("built", (1,))
    plan = tmp_path / "plan.json"
    moved = [{"topic": "built", "partition": 0, "replicas": [1, 2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    reassign = ("kafka-reassign-partitions", "--reassignment-json-file", str(plan))
    tier.tools.run(*reassign, "--execute")
    wait_until(lambda: "is completed" in tier.tools.run(*reassign, "--verify"), timeout_s=WITHIN_S)
    assert tier.wait_until_tiered("built", (1, 2)) == border

    def dump(node: int, name: str, *options: str) -> list[str]:
        path = str(tier.replica(node, "built") / name)
        return tier.tools.run("kafka-dump-log", *options, "--files", path).splitlines()[1:]

    snapshot = f"{border:020}.snapshot"
    assert sorted(dump(2, snapshot)) == sorted(dump(1, snapshot))
    assert any(re.search(r"producerId: \d+ ", line) for line in dump(2, snapshot))
    log = f"{border:020}.log"
    deep = dump(2, log, "--deep-iteration", "--print-data-log")
    assert deep == dump(1, log, "--deep-iteration", "--print-data-log")
    for kind in ("index", "timeindex"):
        assert not any("mismatch" in line.lower() for line in dump(2, f"{border:020}.{kind}"))
    checkpoints = [(tier.replica(node, "built") / "leader-epoch-checkpoint").read_text() for node in (1, 2)]
    assert checkpoints[0] == checkpoints[1]
