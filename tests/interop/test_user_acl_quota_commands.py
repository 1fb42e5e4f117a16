"""`tidelog user`, `tidelog acl` and `tidelog quota` on a cluster with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

PASSWORD = "canary-of-alice"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker whose clients are super users, and return its address."""
    with EmbeddedCluster(config=AUTHORIZER) as cluster:
        yield cluster.bootstrap_servers


def entries(servers: str, *options: str) -> list[tuple[str, ...]]:
    """Return the entries that `tidelog acl list` prints."""
    acls = json.loads(tidelog_output("acl", "list", *options, "--json", bootstrap=servers))
    return sorted(tuple(entry.values()) for entry in acls)


# --- users


def test_a_user_is_created_listed_altered_and_deleted(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    created = tidelog_output("user", "create", "alice", "--password-file", str(file), bootstrap=servers)
    assert created == "created user alice with SCRAM-SHA-512\n"
    tidelog_output(
        "user", "alter", "alice", "-m", "SCRAM-SHA-256", "--iterations", "8192", "--password-file", "-",
        stdin="other\n", bootstrap=servers,
    )  # fmt: skip
    listed = json.loads(tidelog_output("user", "list", "alice", "--json", bootstrap=servers))
    assert listed == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    tidelog_output("user", "delete", "alice", "-m", "SCRAM-SHA-256", bootstrap=servers)
    assert "SCRAM-SHA-256" not in tidelog_output("user", "list", bootstrap=servers)
    tidelog_output(
        "user", "alter", "alice", "-m", "SCRAM-SHA-256", "--password-file", str(file), bootstrap=servers
    )
    tidelog_output("user", "delete", "alice", bootstrap=servers)
    assert "alice" not in tidelog_output("user", "list", bootstrap=servers)


@pytest.mark.parametrize(
    "arguments, stdin, expected_text",
    [
        (("create", "bob"), "x\n", "no terminal for a password prompt"),
        (("create", "bob", "--password-file", "-"), "", "the password is empty"),
        (("create", "bob", "--password-file", "/no/file"), "", "No such file"),
        (("alter", "bob", "--password-file", "-"), "secret\n", "user 'bob' does not exist"),
        (("delete", "bob"), "", "user 'bob' does not exist"),
    ],
    ids=str,
)
def test_a_command_for_a_user_that_cannot_succeed_fails_with_one_line(
    servers: str, arguments: tuple[str, ...], stdin: str, expected_text: str
) -> None:
    line = tidelog_failure("user", *arguments, code=2, stdin=stdin, bootstrap=servers)
    assert expected_text in line and "secret" not in line


def test_iterations_outside_the_bounds_are_refused_by_the_cluster(servers: str) -> None:
    line = tidelog_failure(
        "user", "create", "carol", "--iterations", "100", "--password-file", "-",
        stdin="secret\n", bootstrap=servers,
    )  # fmt: skip
    assert "UNACCEPTABLE_CREDENTIAL" in line and "secret" not in line


# --- access control entries


def test_entries_are_added_listed_and_removed(servers: str) -> None:
    tidelog_output(
        "acl", "add", "--allow-principal", "User:alice", "--allow-principal", "User:bob",
        "--operation", "Read", "--operation", "describe-configs", "--topic", "orders-",
        "--resource-pattern-type", "prefixed",
        "--allow-host", "10.0.0.1", bootstrap=servers,
    )  # fmt: skip
    expected = [
        ("topic", "orders-", "prefixed", principal, "10.0.0.1", operation, "allow")
        for principal in ("User:alice", "User:bob")
        for operation in ("DescribeConfigs", "Read")
    ]
    assert entries(servers, "--topic", "orders-1", "--resource-pattern-type", "match") == expected
    assert entries(servers, "--topic", "orders-") == []
    assert entries(servers, "--principal", "User:bob") == expected[2:]
    tidelog_output(
        "acl", "remove", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders-",
        "--allow-host", "10.0.0.1", "--resource-pattern-type", "prefixed", "--force", bootstrap=servers,
    )  # fmt: skip
    assert entries(servers) == [expected[0], *expected[2:]]
    tidelog_output(
        "acl", "remove", "--topic", "orders-", "--resource-pattern-type", "any", "--force", bootstrap=servers
    )
    assert entries(servers) == []


def test_roles_of_producers_and_consumers_have_the_operations_of_kafkas_tool(servers: str) -> None:
    tidelog_output(
        "acl", "add", "--allow-principal", "User:alice", "--producer", "--idempotent", "--topic", "orders",
        "--transactional-id", "tx", bootstrap=servers,
    )  # fmt: skip
    tidelog_output(
        "acl", "add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "*",
        bootstrap=servers,
    )  # fmt: skip
    operations = {(kind, name, operation) for kind, name, _, _, _, operation, _ in entries(servers)}
    assert operations == {
        ("cluster", "kafka-cluster", "IdempotentWrite"),
        ("topic", "orders", "Create"),
        ("topic", "orders", "Describe"),
        ("topic", "orders", "Read"),
        ("topic", "orders", "Write"),
        ("group", "*", "Read"),
        ("transactional-id", "tx", "Describe"),
        ("transactional-id", "tx", "Write"),
    }
    lines = tidelog_output("acl", "list", bootstrap=servers).splitlines()
    assert lines[0].split() == ["PERMISSION", "PRINCIPAL", "OPERATION", "RESOURCE", "HOST"]
    assert max(map(len, lines)) <= 80
    resources = ("--topic", "orders", "--group", "*", "--cluster", "--transactional-id", "tx")
    tidelog_output("acl", "remove", *resources, "--force", bootstrap=servers)
    assert entries(servers) == []


@pytest.mark.parametrize(
    "arguments, expected_text",
    [
        (("add", "--topic", "t"), "give --allow-principal or --deny-principal"),
        (("add", "--allow-principal", "User:a"), "give a resource"),
        (("add", "--allow-principal", "alice", "--topic", "t"), "expected TYPE:NAME"),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Fly"),
            "allowed are All, Read",
        ),
        (("add", "--allow-principal", "User:a", "--group", "g", "--operation", "Write"), "no such operation"),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"),
            "use literal or prefixed",
        ),
        (("add", "--allow-principal", "User:a", "--topic", "t", "--consumer"), "--consumer needs --group"),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"),
            "--idempotent needs --producer",
        ),
        (
            ("add", "--deny-principal", "User:a", "--topic", "t", "--allow-host", "h"),
            "needs --allow-principal",
        ),
        (("remove", "--topic", "t"), "give --force"),
        (("remove", "--topic", "t", "--operation", "Read", "--force"), "--operation needs --allow-principal"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused_with_one_line(
    servers: str, arguments: tuple[str, ...], expected_text: str
) -> None:
    result_lines = tidelog_failure("acl", *arguments, code=2, bootstrap=servers)
    assert expected_text in result_lines


# --- quotas


def quotas(servers: str, *options: str) -> dict[str, dict[str, float]]:
    """Return the quotas that `tidelog quota describe` prints, by entity."""
    quotas = json.loads(tidelog_output("quota", "describe", *options, "--json", bootstrap=servers))
    return {json.dumps(entry["entity"], sort_keys=True): entry["quotas"] for entry in quotas}


def test_quotas_are_altered_described_and_removed(servers: str) -> None:
    alice = ("--user", "alice", "--client-id", "app")
    tidelog_output(
        "quota", "alter", "producer_byte_rate=1024", "request_percentage=12.5", *alice, bootstrap=servers
    )
    tidelog_output("quota", "alter", "consumer_byte_rate=7", "--user-defaults", bootstrap=servers)
    tidelog_output("quota", "alter", "connection_creation_rate=5", "--ip", "10.0.0.1", bootstrap=servers)
    assert quotas(servers) == {
        '{"client-id": "app", "user": "alice"}': {"producer_byte_rate": 1024, "request_percentage": 12.5},
        '{"user": null}': {"consumer_byte_rate": 7},
        '{"ip": "10.0.0.1"}': {"connection_creation_rate": 5},
    }
    assert list(quotas(servers, "--user", "alice")) == ['{"client-id": "app", "user": "alice"}']
    assert "user <default>             consumer_byte_rate" in tidelog_output(
        "quota", "describe", bootstrap=servers
    )
    tidelog_output("quota", "remove", "request_percentage", *alice, bootstrap=servers)
    assert quotas(servers, *alice) == {'{"client-id": "app", "user": "alice"}': {"producer_byte_rate": 1024}}
    for entity in (alice, ("--user-defaults",), ("--ip", "10.0.0.1")):
        tidelog_output("quota", "remove", *entity, bootstrap=servers)
    assert quotas(servers) == {}


@pytest.mark.parametrize(
    "arguments, expected_text",
    [
        (("alter", "producer_byte_rate=1"), "give an entity"),
        (("alter", "producer_byte_rate=fast", "--user", "a"), "expected a number"),
        (("alter", "producer_byte_rate=1", "--user", "a", "--user-defaults"), "exclude each other"),
        (("alter", "producer_byte_rate=1", "--user", "a", "--ip", "10.0.0.1"), "cannot be combined"),
        (("remove", "--user", "unknown"), "has no quotas"),
    ],
    ids=str,
)
def test_quota_options_that_do_not_fit_are_refused_with_one_line(
    servers: str, arguments: tuple[str, ...], expected_text: str
) -> None:
    assert expected_text in tidelog_failure("quota", *arguments, code=2, bootstrap=servers)
