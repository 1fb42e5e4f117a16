"""Our own clients and nodes with TLS: clients, between brokers, and to controllers."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import tidelog_output
from tests.support.loops.loop_thread import LOOP
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.base.config_definition import ConfigError
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import NewTopic
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.clients.transport.failures import TlsAuthenticationError
from tidelog.protocol.ids import TopicPartition
from tidelog.security.certificate_authority import Authority
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
TRUSTED = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": AUTHORITY.pem()}


def node_config(folder: Path, **changes: str) -> dict[str, str]:
    """Return settings of nodes that use TLS with certificates of both peers on every listener."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(AUTHORITY.issue("node").write_pem(folder / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(AUTHORITY.write(folder / "ca.pem")),
        "ssl.client.auth": "required",
        **changes,
    }


def client_options(folder: Path) -> dict[str, Any]:
    """Return options of a client with a certificate."""
    own = AUTHORITY.issue("alice", ()).write_pem(folder / "client.pem", "secret")
    return {
        "security_protocol": "SSL",
        **TRUSTED,
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(own),
        "ssl_key_password": "secret",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the certificates of this module."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[EmbeddedCluster]:
    """Run three nodes, brokers and controllers, with TLS on all listeners."""
    with EmbeddedCluster(nodes=3, config=node_config(folder)) as running:
        wait_until(lambda: ThreeNodes(running).brokers() == {1, 2, 3})
        yield running


async def exchange(servers: str, options: dict[str, Any], topic: str) -> bytes | None:
    """Write and read one record."""
    async with Producer(servers, acks="all", **options) as producer:
        await producer.send_and_wait(topic, b"value", partition=0)
    async with Consumer(servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while True:
            for records in (await consumer.poll(1000)).values():
                return records[0].value


async def create_topic(servers: str, options: dict[str, Any], topic: str) -> None:
    """Create a topic of one partition with three replicas, of which two must be in sync."""
    async with Admin(servers, **options) as admin:
        created = await admin.create_topics([NewTopic(name=topic, num_partitions=1, replication_factor=3)])
        assert not isinstance(created[topic], Exception), created


def test_our_clients_use_a_cluster_with_tls_on_every_listener(cluster: EmbeddedCluster, folder: Path) -> None:
    options = client_options(folder)
    LOOP.run(create_topic(cluster.bootstrap_servers, options, "events"))
    assert LOOP.run(exchange(cluster.bootstrap_servers, options, "events")) == b"value"


def test_followers_replicate_over_tls(cluster: EmbeddedCluster, folder: Path) -> None:
    def isr_size(node: BrokerNode) -> int:
        return len(node.services.image().topics_by_name["replicated"].partitions[0].isr)

    options = client_options(folder)
    LOOP.run(create_topic(cluster.bootstrap_servers, options, "replicated"))
    assert LOOP.run(exchange(cluster.bootstrap_servers, options, "replicated")) == b"value"
    wait_until(lambda: cluster.run(isr_size) == 3)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_the_listeners_between_nodes_refuse_clients_without_certificate(
    cluster: EmbeddedCluster, listener: str
) -> None:
    port = cluster.run(lambda node: node.bound_port(listener))
    context = ssl.create_default_context(cadata=AUTHORITY.pem())
    # With TLS 1.3 the client gets the rejection only after its own part of the handshake.
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        try:
            encrypted.sendall(encode_frame())
            response = encrypted.recv(1)
        except OSError:
            response = b""
    assert response == b""


def encode_frame() -> bytes:
    """Return a request of ApiVersions, version 0."""
    body = b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
    return len(body).to_bytes(4, "big") + body


async def read_end(servers: str, options: dict[str, Any]) -> int:
    """Query an offset with the default timeout of one minute."""
    async with Consumer(servers, **options) as consumer:
        return (await consumer.end_offsets([TopicPartition("events", 0)]))[TopicPartition("events", 0)]


async def describe(servers: str, options: dict[str, Any]) -> str | None:
    """Query the id of the cluster with the default timeout of one minute."""
    async with Admin(servers, **options) as admin:
        return (await admin.describe_cluster()).cluster_id


@pytest.mark.parametrize("use", [partial(exchange, topic="events"), read_end, describe])
def test_clients_fail_at_once_with_a_broker_that_they_do_not_trust(
    use: Callable[..., Awaitable[object]], cluster: EmbeddedCluster
) -> None:
    other = {**TRUSTED, "ssl_truststore_certificates": Authority.create("Another CA").pem()}
    with pytest.raises(TlsAuthenticationError, match="certificate verify failed"):
        LOOP.run(wait_briefly(use(cluster.bootstrap_servers, {"security_protocol": "SSL", **other})))


@pytest.mark.parametrize("use", [partial(exchange, topic="events"), read_end, describe])
def test_clients_fail_at_once_if_the_broker_refuses_their_certificate(
    use: Callable[..., Awaitable[object]], cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    own = Authority.create("Another CA").issue("mallory").write_pem(tmp_path / "mallory.pem", "secret")
    options = {**client_options(tmp_path), "ssl_keystore_location": str(own)}
    with pytest.raises(TlsAuthenticationError, match="unknown ca"):
        LOOP.run(wait_briefly(use(cluster.bootstrap_servers, options)))


async def wait_briefly(work: Awaitable[object]) -> object:
    """Wait at most a quarter of the default timeout."""
    async with asyncio.timeout(TIMEOUT_S):
        return await work


def test_the_command_line_takes_tls_options(cluster: EmbeddedCluster, folder: Path) -> None:
    options = {key.replace("_", "."): text for key, text in client_options(folder).items()}
    del options["ssl.truststore.certificates"]
    options["ssl.truststore.location"] = str(folder / "ca.pem")
    arguments = [part for key, text in options.items() for part in ("-X", f"{key}={text}")]
    servers = cluster.bootstrap_servers
    tidelog_output("produce", "replicated", *arguments, stdin=b"from the command line\n", bootstrap=servers)
    output = tidelog_output("consume", "replicated", "-o", "beginning", "-e", *arguments, bootstrap=servers)
    assert "from the command line" in output


def test_replaced_certificates_are_used_between_the_nodes(cluster: EmbeddedCluster, folder: Path) -> None:
    def serial_numbers() -> set[int]:
        def of_node(node: Any) -> int:
            return int(
                node._broker.network.server.listeners["PLAINTEXT"].tls.identity.certificate.serial_number
            )

        return {cluster.run(of_node, node_id) for node_id in (1, 2, 3)}

    new = AUTHORITY.issue("node")
    new.write_pem(folder / "node.pem")
    wait_until(lambda: serial_numbers() == {new.certificate.serial_number})
    cluster.stop_node(3)
    cluster.start_node(3)
    options = client_options(folder)
    assert LOOP.run(exchange(cluster.bootstrap_servers, options, "events")) == b"value"


@pytest.mark.parametrize("kind", ["untrusted", "expired"])
def test_a_node_whose_certificate_other_nodes_would_refuse_does_not_start(kind: str, tmp_path: Path) -> None:
    identity = {
        "untrusted": Authority.create("Another CA").issue("node"),
        "expired": AUTHORITY.issue("node", lifetime=-datetime.timedelta(hours=1)),
    }[kind]
    config = {
        **node_config(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(identity.write_pem(tmp_path / "wrong.pem")),
    }
    with pytest.raises(ConfigError, match="nodes with these stores cannot connect to each other"):
        EmbeddedCluster(config=config).start()


def test_remote_log_metadata_is_written_over_tls(tmp_path: Path) -> None:
    def topics(node: BrokerNode) -> set[str]:
        return set(node.services.image().topics_by_name)

    with EmbeddedCluster(nodes=3, tiered=True, config=node_config(tmp_path)) as tiered:
        wait_until(lambda: "__remote_log_metadata" in tiered.run(topics))
