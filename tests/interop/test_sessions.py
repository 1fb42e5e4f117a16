"""Sessions of SASL that end while third-party clients run (KIP-368), and passwords that change meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.foreign_clients.round_trips import (
    aiokafka_round_trip,
    confluent_round_trip,
    kafka_python_round_trip,
)
from tests.support.foreign_clients.single_records import WRITERS
from tests.support.waiting import TIMEOUT_S, wait_until, wait_until_passes
from tidelog.broker.observability.exposition import Exposition
from tidelog.security.jaas import PLAIN_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

LISTENER, SESSIONS = "SASL_PLAINTEXT", "SESSIONS"
SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"
SESSION_MS = 2_500
USER, PASSWORD = "alice", "alice-secret"
AUTHENTICATING_AGAIN = ("confluent", "kafka_python")
"""aiokafka does not authenticate again: it connects again when the broker has closed the connection."""

Options = dict[str, Any]
ROUND_TRIPS: dict[str, Callable[[Options], int]] = {
    "confluent": confluent_round_trip,
    "kafka_python": kafka_python_round_trip,
    "aiokafka": aiokafka_round_trip,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a broker with a listener whose sessions are short, and one without a limit."""
    users = f'{PLAIN_LOGIN_MODULE} required user_{USER}="{PASSWORD}";'
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SESSIONS://127.0.0.1:0",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SESSIONS:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": f"{PLAIN},{SCRAM}",
        "listener.name.sessions.plain.sasl.jaas.config": users,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "listener.name.sessions.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "20",
    }
    with EmbeddedCluster(config=config) as running:
        set_password(running, USER, PASSWORD)
        yield running


@pytest.fixture(params=list(WRITERS))
def client(request: pytest.FixtureRequest) -> str:
    """Return each client, one after the other."""
    name: str = request.param
    return name


def set_password(cluster: EmbeddedCluster, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(TIMEOUT_S)


def options(cluster: EmbeddedCluster, client: str, mechanism: str, **changes: str) -> Options:
    """Return the options of a client of alice, or of the changed listener, user and password."""
    port = cluster.run(lambda node: node.bound_port(changes.get("listener", LISTENER)))
    values = {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": LISTENER,
        "sasl_mechanism": mechanism,
    }
    user, password = changes.get("user", USER), changes.get("password", PASSWORD)
    if client == "confluent":
        dotted = {key.replace("_", "."): value for key, value in values.items()}
        return {**dotted, "sasl.username": user, "sasl.password": password}
    return {**values, "sasl_plain_username": user, "sasl_plain_password": password}


def counters(cluster: EmbeddedCluster) -> dict[str, float]:
    """Return the counters of the listener with short sessions."""
    text: str = cluster.run(lambda node: Exposition(node.metrics).text("")[0].decode())
    lines = [line.split() for line in text.splitlines() if f'{{listener="{SESSIONS}"}}' in line]
    return {name.split("{")[0].split("socketservermetrics_")[-1]: float(value) for name, value in lines}


def read_back(cluster: EmbeddedCluster, topic: str, count: int) -> list[bytes]:
    """Return the values in all partitions of a topic, sorted; fewer than `count` after a deadline."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    try:
        return sorted(message.value() for message in consumer.consume(count, TIMEOUT_S))
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM])
def test_a_client_continues_when_its_sessions_end(
    cluster: EmbeddedCluster, client: str, mechanism: str
) -> None:
    def write_during_two_sessions() -> None:
        topic, count = f"topic-{uuid4().hex[:12]}", 0
        before = counters(cluster)
        writer = WRITERS[client](options(cluster, client, mechanism, listener=SESSIONS))
        ends = time.monotonic() + 2.6 * SESSION_MS / 1000
        while time.monotonic() < ends:
            writer.write(topic, b"%04d" % count)
            count += 1
            time.sleep(0.02)
        writer.close()
        assert read_back(cluster, topic, count) == [b"%04d" % number for number in range(count)]

        def growth_of(name: str) -> float:
            return counters(cluster)[name] - before[name]

        expired, again = "expired_connections_killed_count_total", "successful_reauthentication_total"
        if client in AUTHENTICATING_AGAIN:
            assert growth_of(again) >= 2 and growth_of(expired) == 0
        else:
            assert growth_of(again) == 0 and growth_of(expired) >= 1
        assert growth_of("failed_reauthentication_total") == 0

    # A client that is not scheduled for a while authenticates too late: then its session has ended.
    wait_until_passes(write_during_two_sessions, tolerated=(KafkaException,))


def test_open_connections_continue_when_a_password_changes_and_new_ones_need_the_new_one(
    cluster: EmbeddedCluster, client: str
) -> None:
    user, topic = f"user-{uuid4().hex[:8]}", f"topic-{uuid4().hex[:12]}"

    def options_with(password: str) -> Options:
        return options(cluster, client, SCRAM, user=user, password=password)

    set_password(cluster, user, "old")
    writer = WRITERS[client](options_with("old"))
    writer.write(topic, b"before")
    set_password(cluster, user, "new")
    for number in range(20):
        writer.write(topic, b"after %d" % number)
    with pytest.raises(PermissionError):
        ROUND_TRIPS[client](options_with("old"))
    assert ROUND_TRIPS[client](options_with("new")) == 1
    writer.write(topic, b"at last")
    writer.close()


def test_a_changed_password_is_needed_at_the_end_of_the_session(
    cluster: EmbeddedCluster, client: str
) -> None:
    user, topic = f"user-{uuid4().hex[:8]}", f"topic-{uuid4().hex[:12]}"
    set_password(cluster, user, "old")
    before = counters(cluster)["failed_authentication_total"]
    failed = counters(cluster)["failed_reauthentication_total"]
    limits = {"message.timeout.ms": 1_000} if client == "confluent" else {"request_timeout_ms": 1_000}
    if client == "kafka_python":
        limits |= {"delivery_timeout_ms": 2_000, "max_block_ms": 2_000}
    writer = WRITERS[client](
        {**options(cluster, client, SCRAM, user=user, password="old", listener=SESSIONS), **limits}
    )

    def is_refused() -> bool:
        try:
            writer.write(topic, b"value")
        except Exception:
            return True
        return False

    wait_until(lambda: not is_refused())
    set_password(cluster, user, "new")

    def has_failed() -> bool:
        now = counters(cluster)
        if client in AUTHENTICATING_AGAIN:
            return now["failed_reauthentication_total"] > failed
        return now["failed_authentication_total"] > before

    # A session that has ended before its client was scheduled is refused, too.
    wait_until(lambda: is_refused() and has_failed())
    writer.close()
