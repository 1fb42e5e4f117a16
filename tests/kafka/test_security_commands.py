"""`tidelog acl`, `user` and `quota` print and change the same as kafka-acls and kafka-configs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.tools import KafkaTools
from tests.support.cli import tidelog_output
from tidelog.testing.embedded import EmbeddedCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ENTRY = re.compile(r"principal=([^,]+), host=([^,]+), operation=(\w+), permissionType=(\w+)")
RESOURCE = re.compile(r"resourceType=(\w+), name=([^,]+), patternType=(\w+)")

Entries = set[tuple[str, ...]]


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaTools]:
    """Return Kafka's tools as a super user of a broker with an authorizer."""
    with EmbeddedCluster(config=AUTHORIZER) as cluster:
        yield KafkaTools(Path(os.environ["TIDELOG_KAFKA_JARS"]), cluster.bootstrap_servers)


def kafkas_entries(tools: KafkaTools) -> Entries:
    """Return the entries that `kafka-acls --list` prints."""
    entries: Entries = set()
    resource: tuple[str, ...] = ()
    for line in tools.run("kafka-acls", "--list").splitlines():
        if named := RESOURCE.search(line):
            resource = named.groups()
        elif entry := ENTRY.search(line):
            entries.add((*resource, *entry.groups()))
    return entries


def our_entries(tools: KafkaTools) -> Entries:
    """Return the entries that `tidelog acl list` prints, in the spelling of kafka-acls."""
    documents = json.loads(tidelog_output("acl", "list", "--json", bootstrap=tools.bootstrap_servers))
    return {
        (
            one["resource_type"].upper().replace("-", "_"),
            one["resource_name"],
            one["pattern_type"].upper(),
            one["principal"],
            one["host"],
            re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one["operation"]).upper(),
            one["permission"].upper(),
        )
        for one in documents
    }


@pytest.mark.parametrize(
    "options",
    [
        ("--allow-principal", "User:a", "--operation", "Read", "--operation", "AlterConfigs", "--topic", "t"),
        ("--deny-principal", "User:b", "--deny-host", "10.0.0.1", "--group", "g", "--group", "h"),
        (
            "--allow-principal",
            "User:c",
            "--producer",
            "--idempotent",
            "--topic",
            "t",
            "--transactional-id",
            "x",
        ),
        ("--allow-principal", "User:c", "--consumer", "--topic", "t", "--group", "*"),
        ("--allow-principal", "User:d", "--producer", "--consumer", "--topic", "t", "--group", "g"),
        ("--allow-principal", "User:d", "--topic", "p-", "--resource-pattern-type", "prefixed"),
        ("--allow-principal", "User:e", "--cluster", "--operation", "Alter"),
        ("--allow-principal", "User:e", "--user-principal", "User:f", "--operation", "CreateTokens"),
    ],
    ids=str,
)
def test_the_same_options_add_and_remove_the_same_entries(
    secured: KafkaTools, options: tuple[str, ...]
) -> None:
    secured.run("kafka-acls", "--add", *options)
    added = kafkas_entries(secured)
    assert added and our_entries(secured) == added
    tidelog_output("acl", "remove", *options, "--force", bootstrap=secured.bootstrap_servers)
    assert kafkas_entries(secured) == set()
    tidelog_output("acl", "add", *options, bootstrap=secured.bootstrap_servers)
    assert kafkas_entries(secured) == added
    secured.run("kafka-acls", "--remove", *options, "--force")
    assert our_entries(secured) == set()


def test_users_are_those_of_kafkas_tool(secured: KafkaTools) -> None:
    servers = secured.bootstrap_servers
    tidelog_output("user", "create", "alice", "--password-file", "-", stdin="secret\n", bootstrap=servers)
    secured.run(
        "kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice",
        "--add-config", "SCRAM-SHA-256=[iterations=8192,password=other]",
    )  # fmt: skip
    described = secured.run("kafka-configs", "--describe", "--entity-type", "users")
    assert "SCRAM-SHA-512=iterations=4096" in described and "SCRAM-SHA-256=iterations=8192" in described
    listed = json.loads(tidelog_output("user", "list", "--json", bootstrap=servers))
    assert {(one["mechanism"], one["iterations"]) for one in listed} == {
        ("SCRAM-SHA-256", 8192),
        ("SCRAM-SHA-512", 4096),
    }
    tidelog_output("user", "delete", "alice", bootstrap=servers)
    assert "SCRAM" not in secured.run("kafka-configs", "--describe", "--entity-type", "users")


def test_quotas_are_those_of_kafkas_tool(secured: KafkaTools) -> None:
    servers = secured.bootstrap_servers
    tidelog_output(
        "quota",
        "alter",
        "producer_byte_rate=1024",
        "--user",
        "alice",
        "--client-id-defaults",
        bootstrap=servers,
    )
    secured.run(
        "kafka-configs", "--alter", "--entity-type", "ips", "--entity-name", "10.0.0.1",
        "--add-config", "connection_creation_rate=5",
    )  # fmt: skip
    described = secured.run(
        "kafka-configs", "--describe", "--entity-type", "users", "--entity-type", "clients"
    )
    assert "user-principal 'alice', the default client-id are producer_byte_rate=1024.0" in described
    listed = json.loads(tidelog_output("quota", "describe", "--json", bootstrap=servers))
    assert listed == [
        {"entity": {"client-id": None, "user": "alice"}, "quotas": {"producer_byte_rate": 1024.0}},
        {"entity": {"ip": "10.0.0.1"}, "quotas": {"connection_creation_rate": 5.0}},
    ]
    tidelog_output("quota", "remove", "--ip", "10.0.0.1", bootstrap=servers)
    assert "connection_creation_rate" not in secured.run(
        "kafka-configs", "--describe", "--entity-type", "ips"
    )
