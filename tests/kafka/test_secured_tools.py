"""Kafka's own tools with secured brokers of both kinds: Apache Kafka and Tidelog print the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.secured_cluster import Client, SecuredCluster
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import Engine
from tests.support.waiting import wait_until
from tidelog.security.certificate_authority import DAY

# Times, addresses, numbers of clients and files, and the name of the user in an error text of Tidelog.
_VARIABLE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+|\d{13}|client-\d+|: (?:user )?'frank'")
# These texts of Apache Kafka vary from request to request, and some contain its objects.
_AUTHORIZATION = re.compile(r"(AuthorizationException): .*")
_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ more")
_EXCEPTION = re.compile(r"\w+\.errors\.(\w+Exception): (.*)")

SAME_MECHANISMS = "enabled mechanisms are [...]"


def output(tools: KafkaTools, config: Path, tool: str, *arguments: str, stdin: str = "") -> list[str]:
    """Return the exit code and the printed lines, sorted, because Kafka prints sets in any order."""
    done = tools.call(tool, "--command-config", str(config), *arguments, stdin=stdin)
    lines = (done.stdout + done.stderr).splitlines()
    kept = {_AUTHORIZATION.sub(r"\1", line) for line in lines if not _FRAME.match(line)}
    texts = {_VARIABLE.sub("", line).strip().lower() for line in kept}
    return [f"exit code {done.returncode}", *sorted(texts - {""})]


def error(tools: KafkaTools, config: Path) -> tuple[str, str]:
    """Return the exception that ends `kafka-topics --list`, and its text."""
    done = tools.call("kafka-topics", "--command-config", str(config), "--list")
    assert done.returncode != 0, done.stdout
    exceptions = _EXCEPTION.findall(done.stdout + done.stderr)
    assert exceptions, done.stdout + done.stderr
    kind, text = exceptions[-1]
    return kind, re.sub(r"enabled mechanisms are \[.*\]", SAME_MECHANISMS, text)


SASL_FAILURE = "SaslAuthenticationException"
TLS_FAILURE = "SslAuthenticationException"
REFUSED: dict[str, tuple[Client, Callable[[SecuredCluster], Path], str]] = {
    "wrong password": (Client.SASL, lambda one: one.sasl_file("alice", password="no"), SASL_FAILURE),
    "unknown user": (Client.SASL, lambda one: one.sasl_file("unknown"), SASL_FAILURE),
    "wrong password of SCRAM": (
        Client.SASL,
        lambda one: one.sasl_file("node", "SCRAM-SHA-512", password="no"),
        SASL_FAILURE,
    ),
    "unknown user of SCRAM": (
        Client.SASL,
        lambda one: one.sasl_file("unknown", "SCRAM-SHA-256"),
        SASL_FAILURE,
    ),
    "other mechanism": (
        Client.SASL,
        lambda one: one.sasl_file(
            "alice",
            sasl_mechanism="OAUTHBEARER",
            sasl_jaas_config=(
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="alice";'
            ),
        ),
        "UnsupportedSaslMechanismException",
    ),
    "untrusted broker": (
        Client.SASL,
        lambda one: one.sasl_file("alice", ssl_truststore_location=one.authority_file("other-ca")),
        TLS_FAILURE,
    ),
    "expired broker": (Client.EXPIRED, lambda one: one.tls_file(None), TLS_FAILURE),
    "broker with another name": (Client.OTHER_HOST, lambda one: one.tls_file(None), TLS_FAILURE),
    "no certificate": (Client.TLS, lambda one: one.tls_file(None), TLS_FAILURE),
    "untrusted certificate": (
        Client.TLS,
        lambda one: one.tls_file(one.certificates.other.issue("alice")),
        TLS_FAILURE,
    ),
    "expired certificate": (
        Client.TLS,
        lambda one: one.tls_file(one.certificates.authority.issue("alice", lifetime=-DAY)),
        TLS_FAILURE,
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_client_is_refused_with_the_exception_of_apache_kafka(secured: SecuredCluster, case: str) -> None:
    client, write, kind = REFUSED[case]
    config = write(secured)
    ours, kafkas = (error(secured.tools(engine, client), config) for engine in Engine)
    assert ours == kafkas
    assert ours[0] == kind


def test_records_are_produced_and_consumed_with_each_mechanism_and_with_a_certificate(
    secured: SecuredCluster,
) -> None:
    secured.clients.create_topic("mechanisms", [[1, 3]])
    admin = secured.sasl_file("admin")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        secured.tools(Engine.KAFKA).run(
            "kafka-configs",
            *("--command-config", str(admin), "--alter", "--entity-type", "users", "--entity-name", "bob"),
            *("--add-config", f"{mechanism}=[iterations=4096,password=bob-secret]"),
        )
    secured.tools(Engine.TIDELOG).run(
        "kafka-acls",
        *("--command-config", str(admin), "--add", "--topic", "mechanisms"),
        *("--operation", "Read", "--operation", "Write"),
        *("--allow-principal", "User:bob", "--allow-principal", "User:CN=carol"),
    )
    configs = [
        (Client.SASL, secured.sasl_file("bob", mechanism))
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    configs.append((Client.TLS, secured.tls_file(secured.certificates.authority.issue("carol"))))
    written = []
    for engine in Engine:
        for number, (client, config) in enumerate(configs):
            written.append(f"{engine.value} {number}")
            secured.tools(engine, client).run(
                "kafka-console-producer",
                *("--topic", "mechanisms", "--sync", "--command-config", str(config)),
                stdin=written[-1] + "\n",
            )
    for engine in Engine:
        for client, config in configs:
            lines = secured.tools(engine, client).run(
                "kafka-console-consumer",
                *("--topic", "mechanisms", "--partition", "0", "--offset", "earliest"),
                *("--max-messages", str(len(written)), "--command-config", str(config)),
            )
            assert lines.split("\n")[:-1] == written


def test_the_performance_tools_run_with_scram(secured: SecuredCluster) -> None:
    secured.clients.create_topic("perf", [[1, 3], [3, 1]])
    config = secured.sasl_file("node", "SCRAM-SHA-512")
    for engine in Engine:
        tools = secured.tools(engine)
        sent = tools.run(
            "kafka-producer-perf-test",
            *("--topic", "perf", "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
            *("--command-config", str(config)),
        )
        assert "20000 records sent" in sent
        read = tools.run(
            "kafka-consumer-perf-test",
            *("--topic", "perf", "--num-records", "20000", "--timeout", "60000"),
            *("--command-config", str(config)),
        )
        assert int(read.splitlines()[-1].split(", ")[4]) >= 20000


UNAUTHORIZED: list[tuple[str, ...]] = [
    ("kafka-topics", "--create", "--topic", "new"),
    ("kafka-topics", "--describe", "--topic", "hidden"),
    ("kafka-topics", "--delete", "--topic", "hidden"),
    (
        *("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "hidden"),
        *("--add-config", "retention.ms=1000"),
    ),
    ("kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "bob"),
    (
        *("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "bob"),
        *("--add-config", "consumer_byte_rate=100"),
    ),
    ("kafka-acls", "--list"),
    ("kafka-metadata-quorum", "describe", "--status"),
    ("kafka-console-producer", "--topic", "hidden", "--sync"),
    ("kafka-console-consumer", "--topic", "hidden", "--group", "hidden", "--timeout-ms", "8000"),
    ("kafka-consumer-groups", "--describe", "--group", "hidden"),
    ("kafka-log-dirs", "--describe"),
]


def test_a_user_without_permission_gets_the_errors_of_apache_kafka(secured: SecuredCluster) -> None:
    secured.clients.create_topic("hidden", [[1, 3]])
    config = secured.sasl_file("alice")
    printed = {}
    for engine in Engine:
        # A broker and a controller of one kind.
        secured.elect_controller_of(engine)
        printed[engine] = {
            command: output(secured.tools(engine), config, *command, stdin="value\n")
            for command in UNAUTHORIZED
        }
    assert printed[Engine.TIDELOG] == printed[Engine.KAFKA]


ENTRIES: list[tuple[str, ...]] = [
    ("--topic", "events", "--operation", "Read"),
    ("--topic", "pre", "--resource-pattern-type", "prefixed", "--operation", "Read"),
    ("--group", "*", "--operation", "Read"),
    ("--cluster", "--operation", "Alter"),
    ("--transactional-id", "copier", "--operation", "Write"),
    ("--user-principal", "User:u", "--operation", "CreateTokens"),
]


def test_kafka_acls_prints_the_same_for_both_kinds(secured: SecuredCluster) -> None:
    config = secured.sasl_file("admin")
    people = ("--allow-principal", "User:dave", "--allow-principal", "User:CN=x,O=y")
    denied = ("--deny-principal", "User:erin", "--deny-host", "10.0.0.1")
    printed: dict[Engine, list[list[str]]] = {}
    for engine in Engine:
        secured.elect_controller_of(engine)
        tools = secured.tools(engine)
        added = [output(tools, config, "kafka-acls", "--add", *people, *denied, *each) for each in ENTRIES]

        def list_acls(*filters: str, tools: KafkaTools = tools) -> list[str]:
            return output(tools, config, "kafka-acls", "--list", *filters)

        wait_until(lambda: any("user:dave" in line for line in list_acls("--user-principal", "User:u")))
        matching = list_acls("--topic", "pre-x", "--resource-pattern-type", "match")
        of_dave = list_acls("--principal", "User:dave")
        removed = [
            output(tools, config, "kafka-acls", "--remove", "--force", *people, *denied, *each)
            for each in ENTRIES
        ]
        wait_until(lambda: list_acls("--principal", "User:dave")[1:] == ["acls for principal `user:dave`"])
        printed[engine] = [*added, matching, of_dave, *removed]
    assert printed[Engine.TIDELOG] == printed[Engine.KAFKA]
    assert sum("user:dave" in line for line in printed[Engine.TIDELOG][len(ENTRIES) + 1]) == 5


def test_kafka_configs_prints_the_same_users_and_quotas_for_both_kinds(secured: SecuredCluster) -> None:
    config = secured.sasl_file("admin")
    user = ("--entity-type", "users", "--entity-name", "frank")
    rates = "consumer_byte_rate=1000000,producer_byte_rate=1000000"
    quotas = f"{rates},request_percentage=200,controller_mutation_rate=10"
    both = "SCRAM-SHA-256=[iterations=4096,password=frank-secret],SCRAM-SHA-512=[password=frank-secret]"
    commands = [
        ("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=100,password=x]"),
        ("--alter", *user, "--add-config", both),
        ("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=frank-secret]"),
        ("--alter", *user, "--entity-type", "clients", "--entity-name", "c", "--add-config", quotas),
        ("--describe", *user),
        ("--describe", *user, "--entity-type", "clients"),
        ("--alter", *user, "--delete-config", "SCRAM-SHA-512"),
        ("--alter", *user, "--delete-config", "SCRAM-SHA-256"),
        ("--alter", *user, "--entity-type", "clients", "--entity-name", "c", "--delete-config",
         "consumer_byte_rate,producer_byte_rate,request_percentage,controller_mutation_rate"),
        ("--describe", *user),
    ]  # fmt: skip
    printed = {}
    for engine in Engine:
        secured.elect_controller_of(engine)
        printed[engine] = [output(secured.tools(engine), config, "kafka-configs", *each) for each in commands]
    assert printed[Engine.TIDELOG] == printed[Engine.KAFKA]
