"""Java clients while their sessions end, their passwords change and the certificate is replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from uuid import uuid4

import pytest

from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until
from tidelog.broker.node.wiring import tls_certificates
from tidelog.broker.observability.exposition import Exposition
from tidelog.local_cluster.ports import free_ports
from tidelog.security.certificate_authority import Authority
from tidelog.security.jaas import LOGIN_MODULES, PLAIN_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"
SESSION_MS = 8_000
WITHIN_S = 90.0
AUTHORITY = Authority.create()

Run = Callable[..., "Future[CompletedProcess[str]]"]


class Broker:
    """A broker with TLS on the listeners TLS, LONG and SHORT; those of SHORT have short sessions."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path, ports: dict[str, int]) -> None:
        self.cluster = cluster
        self.folder = folder
        self._ports = ports
        self._jars = Path(os.environ["TIDELOG_KAFKA_JARS"])

    def tools(self, listener: str) -> KafkaTools:
        """Return Kafka's tools, connected to a listener."""
        return KafkaTools(self._jars, f"127.0.0.1:{self._ports[listener]}")

    def config(self, mechanism: str | None, user: str = "alice", password: str = "alice-secret") -> str:
        """Write a file for `--command-config`; return its path."""
        lines = {
            "security.protocol": "SSL" if mechanism is None else "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }
        if mechanism is not None:
            module = LOGIN_MODULES[mechanism]
            lines["sasl.mechanism"] = mechanism
            lines["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
        path = self.folder / f"{uuid4().hex}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return str(path)

    def set_password(self, user: str, password: str) -> None:
        """Set a password as the administrator, with Kafka's tool."""
        self.tools("PLAINTEXT").run(
            "kafka-configs",
            *("--alter", "--entity-type", "users", "--entity-name", user),
            *("--add-config", f"{SCRAM}=[iterations=4096,password={password}]"),
        )

    def counter(self, listener: str, name: str) -> float:
        """Return a counter of authentications of a listener."""
        text: str = self.cluster.run(lambda node: Exposition(node.metrics).text("")[0].decode())
        sample = re.search(rf'socketservermetrics_{name}_total{{listener="{listener}"}} (\S+)', text)
        assert sample is not None
        return float(sample[1])

    def has_records(self, topic: str, count: int) -> bool:
        """Return whether a topic has this many records."""
        done = self.tools("PLAINTEXT").call("kafka-get-offsets", "--topic", topic)
        return sum(int(line.split(":")[2]) for line in done.stdout.split()) >= count


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run the broker, which checks the files of its certificate often."""
    folder = tmp_path_factory.mktemp("java")
    AUTHORITY.write(folder / "ca.pem")
    names = ("PLAINTEXT", "TLS", "LONG", "SHORT")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    users = f'{PLAIN_LOGIN_MODULE} required user_alice="alice-secret";'
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,LONG:SASL_SSL,SHORT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(AUTHORITY.issue("broker").write_pem(folder / "broker.pem")),
        "sasl.enabled.mechanisms": f"{PLAIN},{SCRAM}",
        "listener.name.short.plain.sasl.jaas.config": users,
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.long.plain.sasl.jaas.config": users,
        "connection.failed.authentication.delay.ms": "20",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls_certificates, "CHECK_INTERVAL_S", 0.05)
        with EmbeddedCluster(config=config) as running:
            broker_with_tls = Broker(running, folder, ports)
            broker_with_tls.set_password("alice", "alice-secret")
            yield broker_with_tls


@pytest.fixture
def produce(broker: Broker) -> Iterator[Run]:
    """Return a function that starts Kafka's Java producer, which writes ten records per second."""
    with ThreadPoolExecutor(1) as threads:

        def start(listener: str, topic: str, config: str, count: int = 90) -> Future[CompletedProcess[str]]:
            load = ("--num-records", str(count), "--record-size", "10", "--throughput", "10")
            arguments = ("kafka-producer-perf-test", "--topic", topic, *load, "--command-config", config)
            return threads.submit(broker.tools(listener).call, *arguments)

        yield start


def new_topic(broker: Broker) -> str:
    topic = f"topic-{uuid4().hex[:8]}"
    broker.tools("PLAINTEXT").run("kafka-topics", "--create", "--topic", topic)
    return topic


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM])
def test_a_producer_and_a_consumer_authenticate_again_before_their_sessions_end(
    broker: Broker, produce: Run, mechanism: str
) -> None:
    topic, config, count = new_topic(broker), broker.config(mechanism), 300
    names = ("successful_reauthentication", "expired_connections_killed_count", "failed_reauthentication")
    again, expired, failed = (broker.counter("SHORT", name) for name in names)
    produced = produce("SHORT", topic, config, count)
    consume = ("--topic", topic, "--from-beginning", "--max-messages", str(count), "--command-config", config)
    assert len(broker.tools("SHORT").run("kafka-console-consumer", *consume).split()) == count
    assert f"{count} records sent" in produced.result(WITHIN_S).stdout
    assert broker.counter("SHORT", names[0]) >= again + 2
    assert broker.counter("SHORT", names[1]) == expired
    assert broker.counter("SHORT", names[2]) == failed


def test_a_producer_continues_when_the_password_changes_and_a_new_one_needs_the_new_password(
    broker: Broker, produce: Run
) -> None:
    topic = new_topic(broker)
    broker.set_password("carol", "old")
    former, later = (broker.config(SCRAM, "carol", password) for password in ("old", "new"))
    produced = produce("LONG", topic, former, count=300)
    wait_until(lambda: broker.has_records(topic, 1), timeout_s=WITHIN_S)
    broker.set_password("carol", "new")
    assert not produced.done()
    refused = broker.tools("LONG").call("kafka-topics", "--list", "--command-config", former)
    assert "SaslAuthenticationException" in refused.stdout + refused.stderr
    assert topic in broker.tools("LONG").run("kafka-topics", "--list", "--command-config", later)
    done = produced.result(WITHIN_S)
    assert "300 records sent" in done.stdout and "Exception" not in done.stdout + done.stderr


def test_a_consumer_ends_with_its_session_if_the_password_has_changed(broker: Broker) -> None:
    topic = new_topic(broker)
    broker.set_password("dave", "old")
    again, failed = (
        broker.counter("SHORT", f"{result}_reauthentication") for result in ("successful", "failed")
    )
    config = broker.config(SCRAM, "dave", "old")
    consume = ("--topic", topic, "--num-records", "1", "--timeout", "60000", "--command-config", config)
    with ThreadPoolExecutor(1) as threads:
        consumed = threads.submit(broker.tools("SHORT").call, "kafka-consumer-perf-test", *consume)
        wait_until(lambda: broker.counter("SHORT", "successful_reauthentication") > again, timeout_s=WITHIN_S)
        broker.set_password("dave", "new")
        done = consumed.result(WITHIN_S)
    assert "SaslAuthenticationException" in done.stdout + done.stderr
    assert broker.counter("SHORT", "failed_reauthentication") > failed


def test_a_producer_loses_no_record_while_the_certificate_is_replaced(broker: Broker, produce: Run) -> None:
    topic, config = new_topic(broker), broker.config(None)
    produced = produce("TLS", topic, config, count=100)
    wait_until(lambda: broker.has_records(topic, 1), timeout_s=WITHIN_S)
    for _ in range(2):
        identity = AUTHORITY.issue("broker")
        identity.write_pem(broker.folder / "broker.pem")
        # A new client, while the producer runs.
        assert topic in broker.tools("TLS").run("kafka-topics", "--list", "--command-config", config)
    done = produced.result(WITHIN_S)
    assert "100 records sent" in done.stdout and "Exception" not in done.stdout + done.stderr
    assert broker.has_records(topic, 100)
