"""Commands of `tidelog` for a cluster whose only listener has SASL_SSL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tidelog.security.certificate_authority import Authority
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = "canary-of-alice"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of the listener."""
    identity = AUTHORITY.issue("broker")
    config = {
        "listeners": "SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "SECURE:SASL_SSL",
        "inter.broker.listener.name": "SECURE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem(),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": (
            f'{MODULE} username="node" password="{PASSWORD}" user_node="{PASSWORD}" user_alice="{PASSWORD}";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem(),
    }
    with EmbeddedCluster(config=config) as cluster:
        yield f"127.0.0.1:{cluster.run(lambda node: node.bound_port('SECURE'))}"


@pytest.fixture
def client_file(address: str, tmp_path: Path) -> str:
    """Write a properties file as for Kafka's tools."""
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={address}\n"
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={AUTHORITY.write(tmp_path / 'ca.pem')}\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} username="alice" password="{PASSWORD}";\n'
    )
    return str(path)


def test_records_are_written_and_read_with_a_command_config(client_file: str) -> None:
    options = ("--command-config", client_file)
    tidelog_output("topic", "create", "letters", "-p", "1", *options)
    tidelog_output("produce", "letters", *options, stdin="a\nb\n")
    assert tidelog_output("consume", "letters", "-e", *options) == "a\nb\n"
    assert "letters" in tidelog_output("topic", "describe", "letters", *options)
    assert "2 records" in tidelog_output("perf", "consume", "letters", *options)


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "list"),
        ("topic", "elect"),
        ("group", "list"),
        ("transactions", "list"),
        ("cluster", "info"),
        ("quorum", "describe"),
        ("broker", "list"),
        ("config", "describe", "broker", "1"),
        ("tier", "ls"),
    ],
    ids=" ".join,
)
def test_every_command_takes_a_command_config(client_file: str, command: tuple[str, ...]) -> None:
    assert PASSWORD not in tidelog_output(*command, "--command-config", client_file)


def test_options_of_kcat_are_accepted(address: str, tmp_path: Path) -> None:
    options = (
        "security.protocol=SASL_SSL",
        f"ssl.ca.location={AUTHORITY.write(tmp_path / 'ca.pem')}",
        "sasl.mechanisms=PLAIN",
        "sasl.username=alice",
        f"sasl.password={PASSWORD}",
    )
    arguments = [argument for option in options for argument in ("-X", option)]
    assert "1" in tidelog_output("cluster", "info", "-b", address, *arguments)


def test_a_wrong_password_is_reported_on_one_line_without_the_password(client_file: str) -> None:
    line = tidelog_failure(
        "topic", "list", "--command-config", client_file,
        "-X", "sasl.username=alice", "-X", "sasl.password=canary-of-eve",
    )  # fmt: skip
    assert "SASL_AUTHENTICATION_FAILED" in line and "canary" not in line


def test_an_option_that_the_client_does_not_have_is_refused_without_its_value(client_file: str) -> None:
    result = tidelog("topic", "list", "--command-config", client_file, "-X", "sasl.pasword=canary-of-alice")
    assert result.exit_code == 2
    assert "Unknown option: 'sasl.pasword'" in result.stderr and "canary" not in result.output
