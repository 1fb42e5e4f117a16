"""`python -m tests.harness.secured_compose`: docker/secured.yaml in real containers, librdkafka on the host.

Three nodes start. Right credentials produce and consume. A wrong password, a user without permission and a
request for metrics without the token are refused. Each node is killed once, and the others continue. Then all
nodes restart. Without a Docker engine the program reports that, and ends with exit code 0.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.cli import tidelog, tidelog_output
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.base.properties import parse_properties
from tidelog.security.certificate_authority import Authority
from tidelog.security.jaas import parse_jaas

COMPOSE: Final = ("docker", "compose", "-f", str(ROOT / "docker" / "secured.yaml"))
NODES: Final = ("node1", "node2", "node3")
METRICS_PORTS: Final = (19404, 19405, 19406)
IMAGE_USER: Final = "10001"
TOPIC: Final = "secured"
PARTITIONS: Final = 6
BATCH: Final = 2_000
DEADLINE_S: Final = 60.0


def main() -> int:
    """Run all steps; return the exit code."""
    for command in (("docker", "info"), ("docker", "compose", "version")):
        if subprocess.run(command, capture_output=True, check=False).returncode:
            print(f"SKIPPED: {' '.join(command)} fails here")
            return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(Path(folder))
        except BaseException:
            print("FAILED; the last lines of the log:")
            subprocess.run((*COMPOSE, "logs", "--tail", "30"), check=False)
            raise
        finally:
            subprocess.run((*COMPOSE, "down", "-v"), capture_output=True, check=False)
    return 0


def run(folder: Path) -> None:
    """Run the steps with files in `folder`. Errors: AssertionError, CalledProcessError."""
    step("up")
    compose("up", "-d", "--build", "--wait")
    compose("cp", "node1:/etc/tidelog/client/.", str(folder))
    client_file = folder / "client.properties"
    assert client_file.stat().st_mode & 0o077 == 0, "other users of the host can read the password"
    for node in NODES:
        owner = compose("exec", "-T", node, "stat", "-c", "%u", "/var/lib/tidelog", "/etc/tidelog").split()
        assert owner == [IMAGE_USER, IMAGE_USER], owner
    wait_for_whole_cluster(client_file)

    step("the administrator produces and consumes")
    administrator = librdkafka(folder)
    options = ("--command-config", str(client_file))
    tidelog_output("topic", "create", TOPIC, "-p", str(PARTITIONS), "-r", "3", *options)
    written = 0
    written = produce(administrator, written)
    assert consume(administrator, written) == list(range(written))

    step("a wrong password and another authority are refused")
    wrong_credentials = {**administrator, "sasl.password": "wrong"}
    assert produce_errors(wrong_credentials) == {KafkaError._AUTHENTICATION}
    other_authority = Authority.create().write(folder / "other-ca.pem")
    assert produce_errors({**administrator, "ssl.ca.location": str(other_authority)}) == {KafkaError._SSL}

    step("a new user needs permission")
    tidelog_output("user", "create", "alice", "--password-file", "-", *options, stdin="a secret of alice\n")
    alice = {**administrator, "sasl.username": "alice", "sasl.password": "a secret of alice"}
    assert produce_errors(alice) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    tidelog_output("acl", "add", "--allow-principal", "User:alice", "--producer", "--topic", TOPIC, *options)
    written = produce(alice, written)

    step("metrics need TLS and the token")
    check_metrics(folder)

    for node in NODES:
        step(f"{node} is killed, and the others continue")
        compose("kill", node)
        written = produce(administrator, written)
        assert consume(administrator, written) == list(range(written))
        compose("start", node)
        wait_for_whole_cluster(client_file)

    step("all nodes stop and start; the setup runs again and changes nothing")
    compose("stop")
    compose("up", "-d", "--wait")
    wait_for_whole_cluster(client_file)
    assert consume(administrator, written) == list(range(written))
    step(f"passed: {written} records, each consumed once")


def step(text: str) -> None:
    """Print the name of the next step."""
    print(f"\n== {text}", flush=True)


def compose(*arguments: str) -> str:
    """Run a command of compose, and return its standard output."""
    return subprocess.run(
        (*COMPOSE, *arguments), stdout=subprocess.PIPE, text=True, check=True, timeout=600
    ).stdout


def librdkafka(folder: Path) -> dict[str, Any]:
    """Return the options of librdkafka for the client file, which has those of Java clients."""
    properties = parse_properties((folder / "client.properties").read_text())
    mechanism = properties["sasl.mechanism"]
    credentials = parse_jaas(properties["sasl.jaas.config"], mechanism).options
    return {
        "bootstrap.servers": properties["bootstrap.servers"],
        "security.protocol": properties["security.protocol"],
        "ssl.ca.location": str(folder / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": credentials["username"],
        "sasl.password": credentials["password"],
    }


def wait_for_whole_cluster(client_file: Path) -> None:
    """Wait until three brokers are known, and all partitions have all replicas in sync."""

    def is_whole() -> bool:
        result = tidelog("cluster", "info", "--json", "--command-config", str(client_file))
        if result.exit_code:
            return False
        state = json.loads(result.stdout)
        return (len(state["brokers"]), state["without_leader"], state["under_replicated"]) == (3, 0, 0)

    wait_until(is_whole, "three brokers with all replicas in sync", timeout_s=DEADLINE_S)


def produce(options: dict[str, Any], first: int) -> int:
    """Produce the numbers from `first` on with acknowledgements; return the next number."""
    failures: list[str] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer({**options, "enable.idempotence": True, "message.timeout.ms": int(DEADLINE_S * 1000)})
    for number in range(first, first + BATCH):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS, on_delivery=on_delivery)
    unsent = producer.flush(DEADLINE_S)
    assert not unsent and not failures, (unsent, failures[:3])
    return first + BATCH


def consume(options: dict[str, Any], count: int) -> list[int]:
    """Return the numbers in the topic, sorted; wait until there are at least `count`."""
    consumer = Consumer({**options, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    numbers: list[int] = []

    def is_complete() -> bool:
        for message in consumer.consume(10_000, timeout=1.0):
            assert message.error() is None, message.error()
            numbers.append(int(message.value()))
        return len(numbers) >= count

    try:
        wait_until(is_complete, f"{count} records", timeout_s=DEADLINE_S)
    finally:
        consumer.close()
    return sorted(numbers)


def produce_errors(options: dict[str, Any]) -> set[int]:
    """Produce a record that must fail; return the errors, except those that follow from others."""
    codes: set[int] = set()

    def on_error(error: KafkaError) -> None:
        codes.add(error.code())

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        assert error is not None, "a record was written"
        codes.add(error.code())

    producer = Producer({**options, "error_cb": on_error})
    producer.produce(TOPIC, b"refused", on_delivery=on_delivery)

    def causes() -> set[int]:
        return codes - {KafkaError._ALL_BROKERS_DOWN}

    def has_cause() -> bool:
        producer.poll(0.1)
        return bool(causes())

    wait_until(has_cause, "an error of the producer", timeout_s=DEADLINE_S)
    errors = causes()
    producer.purge()
    return errors


def check_metrics(folder: Path) -> None:
    """Check that each node serves metrics to clients with the token only, with a valid certificate."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    token = (folder / "metrics-token").read_text()
    for port in METRICS_PORTS:
        request = urllib.request.Request(f"https://localhost:{port}/metrics")
        try:
            urllib.request.urlopen(request, context=context)
        except urllib.error.HTTPError as refusal:
            assert refusal.code == 401, refusal
        else:
            raise AssertionError("the metrics were served without the token")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, context=context) as response:
            assert b"kafka_server_" in response.read()


if __name__ == "__main__":
    sys.exit(main())
