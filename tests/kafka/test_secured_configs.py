"""Dynamic configs of SASL and TLS: kafka-configs prints and does the same at nodes of both kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.kafka.kafka_node import Node
from tests.kafka.secured_cluster import SecuredCluster, password_of
from tests.reference_software.kafka_programs import Engine
from tidelog.security.certificate_authority import DAY
from tidelog.security.jaas import PLAIN_LOGIN_MODULE

USERS = "listener.name.clients.plain.sasl.jaas.config"
MECHANISMS = "listener.name.clients.sasl.enabled.mechanisms"
SESSIONS = "listener.name.clients.connections.max.reauth.ms"
KEY_STORE = "listener.name.certificates.ssl.keystore.location"
KEY_STORE_TYPE = "listener.name.certificates.ssl.keystore.type"
TRUST_STORE = "listener.name.certificates.ssl.truststore.location"


def users_file(folder: Path) -> str:
    """Return the path of a file with the users of the cluster and one more."""
    names = ("admin", "node", "alice", "bob", "zoe")
    users = " ".join(f'user_{name}="{password_of(name)}"' for name in names)
    path = folder / "users.properties"
    path.write_text(f"{USERS}={PLAIN_LOGIN_MODULE} required {users};\n")
    return str(path)


def commands(secured: SecuredCluster, folder: Path) -> Iterator[tuple[str, ...]]:
    """Return the arguments of kafka-configs, one command after the other; the last ones delete all configs.

    `sasl.enabled.mechanisms` without a prefix is not among them: docs/differences.md has the difference.
    """
    authority = secured.certificates.authority
    files = {
        "same": secured.certificates.write("same-name", authority.issue("node")),
        "other": secured.certificates.write("other-name", authority.issue("other")),
        "expired": secured.certificates.write("expired-now", authority.issue("node", lifetime=-DAY)),
    }
    yield "--alter", "--add-config-file", users_file(folder)
    yield ("--describe",)
    yield "--alter", "--add-config", f"{SESSIONS}=3600000"
    yield "--alter", "--add-config", f"{MECHANISMS}=[PLAIN,SCRAM-SHA-256,SCRAM-SHA-512]"
    yield "--alter", "--add-config", f"{KEY_STORE}={files['same']}"
    yield "--alter", "--add-config", f"{TRUST_STORE}={secured.authority_file('ca')}"
    yield ("--describe",)
    yield "--alter", "--add-config", f"{SESSIONS}=x"
    yield "--alter", "--add-config", "ssl.keystore.location=/x"
    yield "--alter", "--add-config", "sasl.jaas.config=x"
    yield "--alter", "--add-config", f"{KEY_STORE}={folder / 'missing.pem'}"
    yield "--alter", "--add-config", f"{KEY_STORE}={files['other']}"
    yield "--alter", "--add-config", f"{KEY_STORE}={files['expired']}"
    yield "--alter", "--add-config", f"{KEY_STORE_TYPE}=JKS"
    yield "--alter", "--add-config", f"{KEY_STORE_TYPE}=NONE"
    yield "--alter", "--add-config", f"{TRUST_STORE}={folder / 'missing.pem'}"
    yield "--alter", "--add-config", "listener.name.clients.ssl.client.auth=sometimes"
    yield "--alter", "--add-config", "listener.name.unknown.ssl.keystore.location=/x"
    yield "--alter", "--delete-config", "listener.name.clients.ssl.key.password"
    yield ("--describe",)
    yield "--alter", "--delete-config", f"{USERS},{SESSIONS},{MECHANISMS},{KEY_STORE},{TRUST_STORE}"
    yield "--alter", "--delete-config", "listener.name.unknown.ssl.keystore.location"
    yield ("--describe",)


def entity(node: Node) -> tuple[str, ...]:
    """Return the options that name a node."""
    return "--entity-type", "brokers", "--entity-name", str(node.number)


def result(secured: SecuredCluster, engine: Engine, arguments: tuple[str, ...]) -> list[str]:
    """Return what kafka-configs prints about the broker of a kind; of a failure, only the exception."""
    node = secured.node(engine)
    config = str(secured.sasl_file("admin"))
    done = secured.tools(engine).call("kafka-configs", "--command-config", config, *entity(node), *arguments)
    if done.returncode != 0:
        return re.findall(r"errors\.(\w+Exception)", done.stdout + done.stderr)[:1]
    return re.sub(rf"\bbroker {node.number}\b", "broker", done.stdout).splitlines()


def test_kafka_configs_prints_the_same_for_both_kinds(secured: SecuredCluster, tmp_path: Path) -> None:
    results: dict[str, list[list[str]]] = {}
    for arguments in commands(secured, tmp_path):
        results[" ".join(arguments)] = [result(secured, engine, arguments) for engine in Engine]
    different = {arguments: pair for arguments, pair in results.items() if pair[0] != pair[1]}
    assert not different
    assert sum(pair[0] == ["InvalidRequestException"] for pair in results.values()) == 9
    assert not any(password_of("zoe") in str(pair) for pair in results.values())
