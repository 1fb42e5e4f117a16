"""Kafka's own tools work with a Tidelog cluster as they do with Kafka's."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until
from tidelog.local_cluster.cluster import LocalCluster

WITHIN_S = 60.0


def describe_topic(tools: KafkaTools, topic: str) -> list[dict[str, str]]:
    """Return the partitions as printed by `kafka-topics --describe`."""
    text = tools.run("kafka-topics", "--describe", "--topic", topic)
    rows = [line for line in text.splitlines() if "\tPartition: " in line]
    return [dict(re.findall(r"(\w+): ?([\d,]*)", line)) for line in rows]


def test_metadata_quorum_reports_leader_voters_and_lag(tools: KafkaTools, cluster: LocalCluster) -> None:
    status = tools.run("kafka-metadata-quorum", "describe", "--status")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert fields["ClusterId"].strip() == cluster.layout.cluster_id
    assert int(fields["LeaderId"]) in (1, 2, 3)
    assert int(fields["HighWatermark"]) > 0
    assert all(f'"id": {node}' in status or f'"id":{node}' in status for node in (1, 2, 3))
    replication = tools.run("kafka-metadata-quorum", "describe", "--replication")
    states = sorted(line.split()[-1] for line in replication.splitlines()[1:])
    assert states == ["Follower", "Follower", "Leader"]


def test_topics_are_created_described_altered_and_deleted(tools: KafkaTools) -> None:
    tools.run(
        "kafka-topics", "--create", "--topic", "tides", "--partitions", "4", "--replication-factor", "3"
    )
    rows = describe_topic(tools, "tides")
    assert len(rows) == 4
    assert all(set(row["Replicas"].split(",")) == {"1", "2", "3"} for row in rows)
    wait_until(
        lambda: all(len(row["Isr"].split(",")) == 3 for row in describe_topic(tools, "tides")),
        "whole ISR",
        timeout_s=WITHIN_S,
    )
    assert {row["Leader"] for row in rows} == {"1", "2", "3"}
    tools.run("kafka-topics", "--alter", "--topic", "tides", "--partitions", "6")
    assert len(describe_topic(tools, "tides")) == 6
    assert "tides" in tools.run("kafka-topics", "--list").split()
    tools.run("kafka-topics", "--delete", "--topic", "tides")
    wait_until(
        lambda: "tides" not in tools.run("kafka-topics", "--list").split(),
        "deletion",
        timeout_s=WITHIN_S,
    )


def test_the_console_tools_exchange_records_and_describe_their_group(tools: KafkaTools) -> None:
    tools.run(
        "kafka-topics", "--create", "--topic", "lines", "--partitions", "3", "--replication-factor", "3"
    )
    text = "".join(f"line {number}\n" for number in range(500))
    tools.run("kafka-console-producer", "--topic", "lines", stdin=text)
    group = ("--group", "readers", "--from-beginning", "--max-messages", "500", "--timeout-ms", "30000")
    read = tools.run("kafka-console-consumer", "--topic", "lines", *group)
    assert sorted(read.splitlines()) == sorted(text.splitlines())
    lag = tools.run("kafka-consumer-groups", "--describe", "--group", "readers")
    rows = [line.split() for line in lag.splitlines() if line.startswith("readers")]
    assert sum(int(row[3]) for row in rows) == 500 and all(row[5] == "0" for row in rows)
    offsets = tools.run("kafka-get-offsets", "--topic", "lines")
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 500


def test_partitions_are_reassigned_and_verified(tools: KafkaTools, tmp_path: Path) -> None:
    tools.run("kafka-topics", "--create", "--topic", "moved", "--replica-assignment", "1:2,2:1")
    tools.run("kafka-console-producer", "--topic", "moved", stdin="a\nb\nc\n")
    plan = tmp_path / "plan.json"
    expected = [{"topic": "moved", "partition": index, "replicas": [3, 2]} for index in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": expected}))
    tools.run("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(plan))

    def is_complete() -> bool:
        verified = tools.run("kafka-reassign-partitions", "--verify", "--reassignment-json-file", str(plan))
        return verified.count("is completed") == 2

    wait_until(is_complete, "completed reassignment", timeout_s=WITHIN_S)
    assert all(
        row["Replicas"] == "3,2" and set(row["Isr"].split(",")) == {"2", "3"}
        for row in describe_topic(tools, "moved")
    )
    assert "No partition reassignments found" in tools.run("kafka-reassign-partitions", "--list")


def test_preferred_leaders_are_elected_after_a_restart(tools: KafkaTools, cluster: LocalCluster) -> None:
    tools.run("kafka-topics", "--create", "--topic", "led", "--replica-assignment", "3:1:2,3:2:1")
    cluster.stop([3])
    wait_until(
        lambda: all(row["Leader"] in "12" for row in describe_topic(tools, "led")),
        "other leaders",
        timeout_s=WITHIN_S,
    )
    cluster.start([3])
    wait_until(
        lambda: all("3" in row["Isr"] for row in describe_topic(tools, "led")),
        "node 3 in the ISR",
        timeout_s=WITHIN_S,
    )
    assert all(row["Leader"] != "3" for row in describe_topic(tools, "led"))
    election = ("--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election" in tools.run("kafka-leader-election", *election)
    assert all(row["Leader"] == "3" for row in describe_topic(tools, "led"))


def test_configs_quotas_and_credentials_are_altered_and_described(tools: KafkaTools) -> None:
    tools.run("kafka-topics", "--create", "--topic", "set", "--partitions", "1")
    topic = ("--entity-type", "topics", "--entity-name", "set")
    tools.run("kafka-configs", "--alter", *topic, "--add-config", "retention.ms=12345")
    assert "retention.ms=12345" in tools.run("kafka-configs", "--describe", *topic)
    user = ("--entity-type", "users", "--entity-name", "ahab")
    tools.run("kafka-configs", "--alter", *user, "--add-config", "producer_byte_rate=1000")
    assert "producer_byte_rate=1000" in tools.run("kafka-configs", "--describe", *user)
    tools.run(
        "kafka-configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=whale]"
    )
    assert "SCRAM-SHA-256=iterations=4096" in tools.run("kafka-configs", "--describe", *user)


def test_levels_of_loggers_are_described_and_altered(tools: KafkaTools) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "2")
    assert "root=INFO" in tools.run("kafka-configs", "--describe", *loggers)
    tools.run("kafka-configs", "--alter", *loggers, "--add-config", "tidelog.broker.network=DEBUG")
    described = tools.run("kafka-configs", "--describe", *loggers)
    assert "tidelog.broker.network=DEBUG" in described
    assert "tidelog.broker.network.listener=DEBUG" in described
    other = ("--entity-type", "broker-loggers", "--entity-name", "1")
    assert "tidelog.broker.network=INFO" in tools.run("kafka-configs", "--describe", *other)
    tools.run("kafka-configs", "--alter", *loggers, "--delete-config", "tidelog.broker.network")
    assert "tidelog.broker.network=INFO" in tools.run("kafka-configs", "--describe", *loggers)
    failed = tools.call("kafka-configs", "--alter", *loggers, "--delete-config", "root")
    assert "Removing the log level of the root logger is not allowed" in failed.stdout + failed.stderr


def test_a_broker_takes_security_keys_without_the_prefix_of_a_listener(tools: KafkaTools) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    tools.run("kafka-configs", "--alter", *broker, "--add-config", "sasl.kerberos.service.name=kafka")
    assert "sasl.kerberos.service.name=kafka" in tools.run("kafka-configs", "--describe", *broker)
    failed = tools.call("kafka-configs", "--alter", *broker, "--add-config", "ssl.keystore.type=PEM")
    assert "only per-listener using the listener prefix" in failed.stdout + failed.stderr
    tools.run("kafka-configs", "--alter", *broker, "--delete-config", "sasl.kerberos.service.name")


def test_features_cluster_id_versions_directories_and_delete_records(
    tools: KafkaTools, cluster: LocalCluster, tmp_path: Path
) -> None:
    features = tools.run("kafka-features", "describe")
    assert "metadata.version" in features
    assert "group.version" in features
    assert "share.version" in features
    assert "streams.version" in features
    upgraded = tools.run("kafka-features", "upgrade", "--feature", "kraft.version=1")
    assert "kraft.version was upgraded to 1" in upgraded
    described = tools.run("kafka-features", "describe").splitlines()
    assert any("kraft.version" in line and "FinalizedVersionLevel: 1" in line for line in described)
    assert cluster.layout.cluster_id in tools.run("kafka-cluster", "cluster-id")
    assert tools.run("kafka-broker-api-versions").count("Produce(0)") == 3
    tools.run("kafka-topics", "--create", "--topic", "cut", "--partitions", "1", "--replication-factor", "3")
    tools.run("kafka-console-producer", "--topic", "cut", stdin="a\nb\nc\nd\n")
    places = tools.run("kafka-log-dirs", "--describe", "--topic-list", "cut").splitlines()[-1]
    assert {broker["broker"] for broker in json.loads(places)["brokers"]} == {1, 2, 3}
    before = tmp_path / "before.json"
    before.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": 2}]})
    )
    assert "low_watermark: 2" in tools.run("kafka-delete-records", "--offset-json-file", str(before))


def test_acls_are_added_listed_and_removed(tools: KafkaTools) -> None:
    rule = ("--allow-principal", "User:ahab", "--operation", "Read", "--topic", "whales")
    added = tools.call("kafka-acls", "--add", *rule)
    # Kafka without an authorizer refuses this, too; the output is one of the two results, in one line.
    assert added.returncode == 0 or "SecurityDisabledException" in added.stdout + added.stderr


def test_dump_log_reads_metadata_and_records(tools: KafkaTools, cluster: LocalCluster) -> None:
    tools.run(
        "kafka-topics", "--create", "--topic", "dumped", "--partitions", "1", "--replication-factor", "3"
    )
    tools.run("kafka-console-producer", "--topic", "dumped", stdin="hello\n")
    data = cluster.layout.data_folder(1)
    [metadata, *_] = sorted((data / "__cluster_metadata-0").glob("*.log"))
    dumped = tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(metadata))
    for record in (
        "LeaderChange",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "FEATURE_LEVEL",
    ):
        assert record in dumped, record
    wait_until(lambda: (data / "dumped-0").is_dir(), "replica on node 1", timeout_s=WITHIN_S)
    [segment] = (data / "dumped-0").glob("*.log")
    wait_until(lambda: segment.stat().st_size > 0, "replicated record", timeout_s=WITHIN_S)
    assert "payload: hello" in tools.run("kafka-dump-log", "--print-data-log", "--files", str(segment))
