"""SASL with other clients: librdkafka, aiokafka and kafka-python on one listener with three mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.support.foreign_clients.round_trips import (
    aiokafka_round_trip,
    confluent_round_trip,
    kafka_python_round_trip,
)
from tests.support.waiting import TIMEOUT_S
from tidelog.security.jaas import PLAIN_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

LISTENER = "SASL_PLAINTEXT"
PLAIN, SHA_256, SHA_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (PLAIN, SHA_256, SHA_512)
PASSWORD = "geheim=,;\"'"
JAAS_PASSWORD = PASSWORD.replace('"', '\\"')
USER = "alice"
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_LOGIN_MODULE} required user_{USER}="{JAAS_PASSWORD}";'
    ),
    "connection.failed.authentication.delay.ms": "20",
}

Access = Callable[[str, str, str, str], int]
"""Produces and reads one record as a user; returns the number of records, or raises an error."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a broker with users for all three mechanisms."""
    with EmbeddedCluster(config=CONFIG) as running:
        set_password(running, USER, PASSWORD)
        yield running


@pytest.fixture
def servers(cluster: EmbeddedCluster) -> str:
    """Return the listener that requires authentication."""
    return f"127.0.0.1:{cluster.run(lambda node: node.bound_port(LISTENER))}"


def set_password(cluster: EmbeddedCluster, user: str, password: str | None) -> None:
    """Set both SCRAM credentials of a user with librdkafka; None deletes them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = (
            UserScramCredentialDeletion(user, mechanism)
            if password is None
            else UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        )
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(TIMEOUT_S)


def alter_broker(cluster: EmbeddedCluster, changes: dict[str, str | None]) -> None:
    """Set dynamic configs of the broker with librdkafka; None deletes them."""
    entries = [
        ConfigEntry(
            key,
            text,
            incremental_operation=AlterConfigOpType.DELETE if text is None else AlterConfigOpType.SET,
        )
        for key, text in changes.items()
    ]
    node_id = cluster.run(lambda node: node.services.config.node_id)
    broker = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.incremental_alter_configs([broker]).values():
        future.result(TIMEOUT_S)


def confluent_options(servers: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": LISTENER,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def with_confluent(servers: str, mechanism: str, user: str, password: str) -> int:
    return confluent_round_trip(confluent_options(servers, mechanism, user, password))


def with_kafka_python(servers: str, mechanism: str, user: str, password: str) -> int:
    return kafka_python_round_trip(python_options(servers, mechanism, user, password))


def with_aiokafka(servers: str, mechanism: str, user: str, password: str) -> int:
    return aiokafka_round_trip(python_options(servers, mechanism, user, password))


def python_options(servers: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    """Return the options of kafka-python and aiokafka, which have the same names."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": LISTENER,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


ACCESS: dict[str, Access] = {
    "confluent": with_confluent,
    "kafka_python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.fixture(params=ACCESS)
def access(request: pytest.FixtureRequest) -> Access:
    """Return each client, one after the other."""
    return ACCESS[request.param]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_gives_access(access: Access, servers: str, mechanism: str) -> None:
    assert access(servers, mechanism, USER, PASSWORD) == 1


@pytest.mark.parametrize("mechanism", [PLAIN, SHA_512])
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("unknown-user", PASSWORD)])
def test_wrong_credentials_give_no_access(
    access: Access, servers: str, mechanism: str, user: str, password: str
) -> None:
    with pytest.raises(PermissionError):
        access(servers, mechanism, user, password)


def test_a_client_without_sasl_gets_no_access(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


def test_a_mechanism_that_is_not_enabled_gives_no_access() -> None:
    config = {**CONFIG, "listener.name.sasl_plaintext.sasl.enabled.mechanisms": SHA_256}
    with EmbeddedCluster(config=config) as running:
        port = running.run(lambda node: node.bound_port(LISTENER))
        for access in (with_confluent, with_aiokafka):
            with pytest.raises(PermissionError):
                access(f"127.0.0.1:{port}", PLAIN, USER, PASSWORD)


def test_a_password_changes_while_a_client_runs(cluster: EmbeddedCluster, servers: str) -> None:
    user, topic = f"user-{uuid4().hex[:8]}", f"topic-{uuid4().hex[:12]}"
    set_password(cluster, user, "old")
    running = Producer(confluent_options(servers, SHA_256, user, "old"))
    running.produce(topic, b"before")
    assert running.flush(TIMEOUT_S) == 0
    set_password(cluster, user, "new")
    # An open connection stays authenticated, as in Kafka; new connections need the new password.
    running.produce(topic, b"after")
    assert running.flush(TIMEOUT_S) == 0
    with pytest.raises(PermissionError):
        with_confluent(servers, SHA_256, user, "old")
    assert with_confluent(servers, SHA_256, user, "new") == 1
    set_password(cluster, user, None)
    with pytest.raises(PermissionError):
        with_confluent(servers, SHA_256, user, "new")


def test_users_and_mechanisms_change_without_a_restart(cluster: EmbeddedCluster, servers: str) -> None:
    users = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    mechanisms = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
    alter_broker(cluster, {users: f'{PLAIN_LOGIN_MODULE} required user_carol="new";'})
    assert with_confluent(servers, PLAIN, "carol", "new") == 1
    with pytest.raises(PermissionError):
        with_confluent(servers, PLAIN, USER, PASSWORD)
    alter_broker(cluster, {mechanisms: SHA_512})
    with pytest.raises(PermissionError):
        with_confluent(servers, PLAIN, "carol", "new")
    assert with_confluent(servers, SHA_512, USER, PASSWORD) == 1
    alter_broker(cluster, {users: None, mechanisms: None})
    assert with_confluent(servers, PLAIN, USER, PASSWORD) == 1


def test_an_authorizer_sees_the_authenticated_principal() -> None:
    config = {
        **CONFIG,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER}",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN_LOGIN_MODULE} required user_{USER}="{JAAS_PASSWORD}" user_bob="b";'
        ),
    }
    with EmbeddedCluster(config=config) as running:
        servers = f"127.0.0.1:{running.run(lambda node: node.bound_port(LISTENER))}"
        assert with_confluent(servers, PLAIN, USER, PASSWORD) == 1
        options = confluent_options(servers, PLAIN, "bob", "b")
        assert AdminClient(options).list_topics(timeout=TIMEOUT_S).topics == {}
        assert (
            AdminClient(confluent_options(servers, PLAIN, USER, PASSWORD))
            .list_topics(timeout=TIMEOUT_S)
            .topics
        )
