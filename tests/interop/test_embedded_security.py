"""`EmbeddedCluster(security=...)`: third-party clients can use its settings unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.loops.loop_thread import LOOP
from tests.support.waiting import TIMEOUT_S
from tidelog.base.properties import parse_properties, properties_text
from tidelog.clients.admin.admin import AclBinding, AclOperation, AclResourceType, Admin
from tidelog.clients.admin.types import NewTopic
from tidelog.local_cluster.security import Security
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

USERS = {"admin": 'canary "of\\ admin', "alice": "canary-of-alice"}
SECURITIES = [
    Security(users=USERS, super_users=["admin"]),
    Security(mechanism="PLAIN", users=USERS, super_users=["admin"]),
    Security(protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", users=USERS, super_users=["admin"]),
    Security(protocol="SSL", users=USERS, super_users=["admin"]),
]


@pytest.fixture(
    scope="module", params=SECURITIES, ids=lambda security: f"{security.protocol}-{security.mechanism}"
)
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """Run one secured broker with a topic that alice may read."""
    with EmbeddedCluster(security=request.param) as running:
        LOOP.run(prepare(running))
        yield running


async def prepare(running: EmbeddedCluster) -> None:
    async with Admin(**running.client_settings().tidelog) as admin:
        await admin.create_topics([NewTopic(name="letters", num_partitions=1)])
        allowed = [
            AclBinding(kind, name, "User:alice", AclOperation.READ)
            for kind, name in ((AclResourceType.TOPIC, "letters"), (AclResourceType.GROUP, "readers"))
        ]
        assert set((await admin.create_acls(allowed)).values()) == {None}


def test_librdkafka_writes_as_the_administrator_and_reads_as_another_user(cluster: EmbeddedCluster) -> None:
    producer = confluent_kafka.Producer(cluster.client_settings("admin").confluent_kafka)
    producer.produce("letters", b"a", partition=0)
    assert producer.flush(20) == 0
    settings = {**cluster.client_settings("alice").confluent_kafka, "group.id": "readers"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("letters", 0, 0)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None and message.error() is None and message.value() == b"a"
    with pytest.raises(
        confluent_kafka.KafkaException, match=r"TOPIC_AUTHORIZATION_FAILED|authorization failed"
    ):
        admin = AdminClient(cluster.client_settings("alice").confluent_kafka)
        for future in admin.create_partitions([confluent_kafka.admin.NewPartitions("letters", 2)]).values():
            future.result(TIMEOUT_S)


def test_aiokafka_connects_with_its_settings(cluster: EmbeddedCluster) -> None:
    async def write() -> int:
        async with aiokafka.AIOKafkaProducer(**cluster.client_settings().aiokafka) as producer:
            written = await producer.send_and_wait("letters", b"b", partition=0)
        return int(written.partition)

    assert LOOP.run(write()) == 0


def test_kafka_python_connects_with_its_settings(cluster: EmbeddedCluster) -> None:
    producer = kafka.KafkaProducer(**cluster.client_settings().kafka_python)
    try:
        assert producer.send("letters", b"c", partition=0).get(20).partition == 0
    finally:
        producer.close()


def test_a_properties_file_is_for_command_config(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    for user in ("admin", "alice"):
        text = properties_text(cluster.client_settings(user).properties)
        assert parse_properties(text) == cluster.client_settings(user).properties
        (tmp_path / user).write_text(text)
    assert "letters" in tidelog_output("topic", "list", "--command-config", str(tmp_path / "admin"))
    line = tidelog_failure("topic", "create", "other", "--command-config", str(tmp_path / "alice"))
    assert "AUTHORIZATION_FAILED" in line and "canary" not in line


def test_three_secured_nodes_replicate_and_restart(tmp_path: Path) -> None:
    security = Security(users=USERS, super_users=["admin"])
    with EmbeddedCluster(nodes=3, security=security, data_dir=tmp_path) as cluster:
        file = tmp_path / "client.properties"
        file.write_text(properties_text(cluster.client_settings().properties))
        options = ("--command-config", str(file))
        tidelog_output("topic", "create", "letters", "-r", "3", *options)
        tidelog_output("produce", "letters", *options, stdin="a\n")
        cluster.restart()
        assert tidelog_output("consume", "letters", "-e", *options) == "a\n"


def test_the_fixture_of_the_package_gives_a_secured_broker(tidelog_secured_broker: EmbeddedCluster) -> None:
    producer = confluent_kafka.Producer(tidelog_secured_broker.client_settings("admin").confluent_kafka)
    producer.produce("letters", b"a")
    assert producer.flush(20) == 0


def test_files_with_secrets_have_mode_0600_and_representations_hide_them(tmp_path: Path) -> None:
    security = Security(users=USERS, super_users=["admin"])
    with EmbeddedCluster(security=security, data_dir=tmp_path) as cluster:
        shown = f"{security!r} {cluster.client_settings('alice')!r}"
        for name in ("node.pem", "security.json"):
            assert (tmp_path / "security" / name).stat().st_mode & 0o777 == 0o600
    assert "canary" not in shown


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        ({"protocol": "PLAINTEXT"}, "allowed are SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"mechanism": "GSSAPI"}, "allowed are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"super_users": ["eve"]}, "'eve', which is not in users"),
        ({"users": {"node": "x"}}, "the user of the nodes"),
        ({"protocol": "SSL", "users": {"ca": "x"}}, "names of files, except 'ca'"),
        ({"protocol": "SSL", "users": {"../a": "x"}}, "names of files"),
        ({"protocol": "SSL", "users": {"node,OU=a": "x"}}, "names of files"),
        ({"users": {"a;User:b": "x"}, "super_users": ["a;User:b"]}, "a semicolon separates"),
    ],
    ids=str,
)
def test_a_security_that_cannot_be_used_is_refused(arguments: dict[str, object], expected_text: str) -> None:
    with pytest.raises(ValueError, match=expected_text):
        Security(**arguments)  # type: ignore[arg-type]
