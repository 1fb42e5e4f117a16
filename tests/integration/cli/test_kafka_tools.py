"""Kafka's tools by their names, as in `/opt/kafka/bin` of the image, and the defaults of the image."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tidelog.testing.embedded import EmbeddedCluster

START = runpy.run_path(str(ROOT / "docker" / "start.py"))


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[..., str]]:
    """Run a broker, and return a function that runs a tool and returns its output."""
    with EmbeddedCluster() as cluster:

        def run(tool: str, *arguments: str, stdin: str = "") -> str:
            command = [sys.executable, "-m", "tidelog.cli.kafka_tools", f"/opt/kafka/bin/{tool}.sh"]
            command += ["--bootstrap-server", cluster.bootstrap_servers, *arguments]
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run


def test_the_tools_create_write_read_and_reset(run: Callable[..., str]) -> None:
    run("kafka-topics", "--create", "--topic", "tides", "--partitions", "2", "--if-not-exists")
    assert run("kafka-topics", "--list") == "tides\n"
    assert "partitions   2" in run("kafka-topics", "--describe")
    properties = ("--property", "parse.key=true", "--property", "key.separator=:")
    run("kafka-console-producer", "--topic", "tides", *properties, stdin="brest:high\n")
    read = run(
        "kafka-console-consumer",
        *("--topic", "tides", "--from-beginning", "--max-messages", "1", "--group", "harbour"),
        *("--property", "print.key=true"),
    )
    assert read == "brest\thigh\n"
    assert run("kafka-consumer-groups", "--list") == "harbour\n"
    assert "total lag    0" in run("kafka-consumer-groups", "--describe", "--group", "harbour")
    reset = ("--reset-offsets", "--group", "harbour", "--topic", "tides", "--to-earliest", "--execute")
    assert "NEW OFFSET" in run("kafka-consumer-groups", *reset)
    assert "Produce" in run("kafka-broker-api-versions")


def test_a_consumer_stops_when_no_record_arrives(run: Callable[..., str]) -> None:
    run("kafka-topics", "--create", "--topic", "waves")
    run("kafka-console-producer", "--topic", "waves", stdin="one\n")
    read = run("kafka-console-consumer", "--topic", "waves", "--from-beginning", "--timeout-ms", "1500")
    assert read == "one\n"


def test_the_tools_of_share_groups_streams_groups_and_client_metrics_run(run: Callable[..., str]) -> None:
    run("kafka-topics", "--create", "--topic", "jobs")
    run("kafka-console-share-consumer", "--topic", "jobs", "--group", "workers", "--timeout-ms", "500")
    assert run("kafka-share-groups", "--list") == "workers\n"
    assert "jobs" in run("kafka-share-groups", "--describe", "--group", "workers")
    assert "Empty" in run("kafka-share-groups", "--describe", "--group", "workers", "--state")
    run("kafka-share-groups", "--delete-offsets", "--group", "workers", "--topic", "jobs")
    run("kafka-share-groups", "--delete", "--group", "workers")
    assert run("kafka-share-groups", "--list") == run("kafka-streams-groups", "--list") == ""
    name = ("--name", "everything")
    run("kafka-client-metrics", "--alter", *name, "--metrics", "*", "--interval", "5000")
    assert "everything" in run("kafka-client-metrics", "--list")
    assert "5000" in run("kafka-client-metrics", "--describe", *name)
    run("kafka-client-metrics", "--delete", *name)
    assert "everything" not in run("kafka-client-metrics", "--list")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("kafka-dump-log.sh",), "unknown tool 'kafka-dump-log'; the tools are: kafka-topics"),
        (("kafka-topics.sh", "--create"), "--create needs --topic"),
        (("kafka-topics.sh", "--zookeeper", "x", "--list"), "--zookeeper"),
    ],
)
def test_wrong_usage_has_exit_code_2(arguments: tuple[str, ...], text: str) -> None:
    command = [sys.executable, "-m", "tidelog.cli.kafka_tools", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and text in done.stderr


# --- the defaults of the image


def test_a_container_without_variables_is_one_node_that_the_host_reaches() -> None:
    values = START["with_defaults"]({})
    assert values["CLUSTER_ID"] == "5L6g3nShT-eMCtK--X86sw"
    assert values["KAFKA_LISTENERS"] == "PLAINTEXT://:9092"
    assert values["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://localhost:9092"
    assert values["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] == "1"


def test_variables_that_are_set_are_kept() -> None:
    variables = {
        "CLUSTER_ID": "own",
        "KAFKA_NODE_ID": "2",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_LOG_DIRS": "/data",
    }
    assert START["with_defaults"](variables) == variables


def test_listeners_have_the_ports_that_are_advertised() -> None:
    advertised = "A://broker-1:9092,B://[::1]:19092,C://10.0.0.1:1"
    values = START["with_defaults"]({"KAFKA_ADVERTISED_LISTENERS": advertised})
    assert values["KAFKA_LISTENERS"] == "A://:9092,B://:19092,C://:1"


def test_a_directory_of_another_user_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    problem = START["problem_of_directory"](tmp_path / "missing" / "data")
    assert f"Cannot write to {tmp_path}/missing/data: {tmp_path} belongs to user" in problem
    assert "chown -R" in problem and "--user" in problem
    monkeypatch.undo()
    assert START["problem_of_directory"](tmp_path / "missing") is None
