"""Delegation tokens with Apache Kafka's tools and clients, in a directory that Kafka's broker uses, too.

Both compute the same HMAC for a token, read each other's records, and accept each other's tokens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka.directory_node import Node
from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

SETTINGS = (
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT\n"
    "inter.broker.listener.name=PLAINTEXT\n"
    "listener.name.clients.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n"
    f"listener.name.clients.plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required "
    'user_alice="alice-secret" user_bob="bob-secret";\n'
    f"listener.name.clients.scram-sha-256.sasl.jaas.config={SCRAM_LOGIN_MODULE} required;\n"
    f"listener.name.clients.scram-sha-512.sasl.jaas.config={SCRAM_LOGIN_MODULE} required;\n"
    "delegation.token.secret.key=key of both\n"
)


class Token(NamedTuple):
    """A line of the output of kafka-delegation-tokens."""

    token_id: str
    hmac: str
    owner: str
    requester: str
    renewers: str


def tokens_in(output: str) -> dict[str, Token]:
    """Return the tokens of a table by id."""
    head, rows = "TOKENID", []
    lines = [line.split() for line in output.splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if line[0] == head), len(lines))
    rows = [Token(*line[:5]) for line in lines[start + 1 :]]
    return {row.token_id: row for row in rows}


class Clients:
    """Kafka's tools with the credentials of a user or with a token."""

    def __init__(self, node: Node, jars: str, folder: Path) -> None:
        self._tools = KafkaTools(Path(jars), f"127.0.0.1:{node.ports['CLIENTS']}")
        self._folder = folder

    def user(self, name: str) -> str:
        """Return the file of a user with a password."""
        jaas = f'{PLAIN_LOGIN_MODULE} required username="{name}" password="{name}-secret";'
        return self._file(name, "PLAIN", jaas)

    def token(self, token: Token, mechanism: str = "SCRAM-SHA-256") -> str:
        """Return the file of a client with a token."""
        credentials = f'username="{token.token_id}" password="{token.hmac}" tokenauth="true"'
        return self._file(token.token_id, mechanism, f"{SCRAM_LOGIN_MODULE} required {credentials};")

    def create(self, *options: str) -> Token:
        """Create a token as alice."""
        output = self._tools.run(
            "kafka-delegation-tokens",
            "--create",
            "--max-life-time-period",
            "-1",
            *options,
            "--command-config",
            self.user("alice"),
        )
        (token,) = tokens_in(output).values()
        wait_until(lambda: token.token_id in self.describe("alice"))
        return token

    def change(self, kind: str, user: str, token: Token, period_ms: int = -1) -> str:
        """Renew or expire a token; return the output."""
        period = f"--{'renew' if kind == 'renew' else 'expiry'}-time-period"
        done = self._tools.call(
            "kafka-delegation-tokens",
            f"--{kind}",
            period,
            str(period_ms),
            "--hmac",
            token.hmac,
            "--command-config",
            self.user(user),
        )
        return done.stdout + done.stderr

    def describe(self, user: str) -> dict[str, Token]:
        """Return the tokens of alice that a user sees; the tool describes none without an owner."""
        options = ("--describe", "--owner-principal", "User:alice", "--command-config", self.user(user))
        return tokens_in(self._tools.run("kafka-delegation-tokens", *options))

    def write(self, file: str, value: str) -> None:
        """Produce one record with Kafka's Java producer."""
        options = ("--topic", "tides", "--command-config", file)
        self._tools.run("kafka-console-producer", *options, stdin=f"{value}\n")

    def read(self, file: str, count: int) -> list[str]:
        """Consume records with Kafka's Java consumer."""
        options = ("--topic", "tides", "--from-beginning", "--max-messages", str(count))
        output = self._tools.run("kafka-console-consumer", *options, "--command-config", file)
        return sorted(output.split())

    def refusal(self, tool: str, file: str, *options: str) -> str:
        """Return what a tool prints when it fails."""
        done = self._tools.call(tool, *options, "--command-config", file)
        assert done.returncode != 0 or "Exception" in done.stdout + done.stderr
        return done.stdout + done.stderr

    def _file(self, name: str, mechanism: str, jaas: str) -> str:
        path = self._folder / f"{name}-{mechanism}.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        )
        return str(path)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, os.environ["TIDELOG_KAFKA_JARS"], SETTINGS, ["CLIENTS"])


def test_tokens_of_both_are_described_used_and_expired_by_both(node: Node, tmp_path: Path) -> None:
    clients = Clients(node, os.environ["TIDELOG_KAFKA_JARS"], tmp_path)
    node.format()
    with node.run_as("tidelog") as tools:
        tools.run("kafka-topics", "--create", "--topic", "tides", "--partitions", "1")
        ours = clients.create("--renewer-principal", "User:bob")
        removed = clients.create()
        assert (ours.owner, ours.requester, ours.renewers) == ("User:alice", "User:alice", "[User:bob]")
        assert clients.describe("alice") == {each.token_id: each for each in (ours, removed)}
        clients.write(clients.token(ours), "ours")
        assert "expiry" in clients.change("renew", "bob", ours).lower()
        assert "OwnerMismatch" in clients.change("expire", "bob", removed)
        clients.change("expire", "alice", removed)
        assert "not allowed" in clients.refusal("kafka-delegation-tokens", clients.token(ours), "--describe")
        # More records than a snapshot needs.
        for name in "abcd":
            tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "5")
    assert node.snapshots()
    with node.run_as("kafka") as tools:
        assert clients.describe("alice") == {ours.token_id: ours}
        clients.write(clients.token(ours, "SCRAM-SHA-512"), "ours-at-kafka")
        kafkas = clients.create("--renewer-principal", "User:bob")
        clients.write(clients.token(kafkas), "kafkas")
        for name in "efgh":
            tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "5")
    with node.run_as("tidelog"):
        assert clients.describe("alice") == {each.token_id: each for each in (ours, kafkas)}
        assert clients.read(clients.token(kafkas, "SCRAM-SHA-512"), 3) == ["kafkas", "ours", "ours-at-kafka"]
        clients.change("expire", "bob", kafkas)
        wait_until(lambda: set(clients.describe("alice")) == {ours.token_id})
        refused = clients.refusal("kafka-topics", clients.token(kafkas), "--list")
        assert "SaslAuthenticationException" in refused
        assert "DelegationTokenNotFound" in clients.change("renew", "bob", kafkas)
