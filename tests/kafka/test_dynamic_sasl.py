"""Kafka's own tools change the users and mechanisms of a running broker, and authenticate by SASL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.tools import KafkaTools
from tidelog.security.jaas import PLAIN_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

USERS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MECHANISMS = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    MECHANISMS: "PLAIN",
    USERS: f'{PLAIN_LOGIN_MODULE} required user_alice="old";',
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config=CONFIG) as running:
        yield running


@pytest.fixture
def tools(cluster: EmbeddedCluster) -> KafkaTools:
    """Return Kafka's tools, connected to the listener with SASL."""
    port = cluster.run(lambda node: node.bound_port("SASL_PLAINTEXT"))
    return KafkaTools(Path(os.environ["TIDELOG_KAFKA_JARS"]), f"127.0.0.1:{port}")


def credentials(folder: Path, user: str, password: str) -> tuple[str, ...]:
    """Return the option that authenticates a tool."""
    path = folder / f"{user}.properties"
    module = f'{PLAIN_LOGIN_MODULE} required username="{user}" password="{password}";'
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={module}\n")
    return "--command-config", str(path)


def test_kafka_configs_changes_the_users_and_never_shows_them(
    cluster: EmbeddedCluster, tools: KafkaTools, tmp_path: Path
) -> None:
    broker = (
        "--entity-type",
        "brokers",
        "--entity-name",
        str(cluster.run(lambda node: node.services.config.node_id)),
    )
    added = tmp_path / "added.properties"
    added.write_text(f'{USERS}={PLAIN_LOGIN_MODULE} required user_alice="old" user_carol="canary";\n')
    alice, carol = credentials(tmp_path, "alice", "old"), credentials(tmp_path, "carol", "canary")
    tools.run("kafka-configs", "--alter", *broker, "--add-config-file", str(added), *alice)
    described = tools.run("kafka-configs", "--describe", *broker, *carol)
    assert f"{USERS}=null" in described
    assert "canary" not in described
    refused = tools.call("kafka-configs", "--alter", *broker, "--add-config", f"{MECHANISMS}=GSSAPI", *carol)
    assert refused.returncode != 0
    assert "Kerberos is not supported" in refused.stdout + refused.stderr
    tools.run("kafka-configs", "--alter", *broker, "--delete-config", USERS, *carol)
    denied = tools.call("kafka-configs", "--describe", *broker, *carol)
    assert "Invalid username or password" in denied.stdout + denied.stderr
