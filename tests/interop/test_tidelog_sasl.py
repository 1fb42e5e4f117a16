"""SASL of our clients and between our nodes: three nodes whose listeners all require authentication."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop.own_clients import RECORDS, create_topic, produce_for, transactional_round_trip
from tests.support.cli import tidelog_output
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import ConfigChange, ConfigResource, NewTopic, ResourceType
from tidelog.clients.admin.users import ScramUpsertion
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.certificate_authority import Authority
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
NODE_SECRET, ALICE_SECRET = "canary-node-5b1f", "canary-alice-77c2"
JAAS = (
    f'{PLAIN_LOGIN_MODULE} required username="node" password="{NODE_SECRET}" '
    f'user_node="{NODE_SECRET}" user_alice="{ALICE_SECRET}";'
)
CONFIG = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "20",
    # Short, so that every connection re-authenticates while the tests run.
    "connections.max.reauth.ms": "3000",
}


@dataclass(frozen=True)
class SecuredNodes:
    """A running cluster, and the options of its clients without credentials."""

    cluster: EmbeddedCluster
    transport: dict[str, Any]


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", "SASL_SSL"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredNodes]:
    """Run three nodes, each of them broker and controller."""
    protocol, folder = request.param, tmp_path_factory.mktemp("certificates")
    config = {
        **CONFIG,
        "listener.security.protocol.map": f"PLAINTEXT:{protocol},CONTROLLER:{protocol}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(AUTHORITY.issue("node").write_pem(folder / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(AUTHORITY.write(folder / "ca.pem")),
    }
    transport = {
        "security_protocol": protocol,
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(folder / "ca.pem"),
    }
    with EmbeddedCluster(nodes=3, config=config) as running:
        wait_until(lambda: len(ThreeNodes(running).brokers()) == 3)
        yield SecuredNodes(running, transport)


def options(secured: SecuredNodes, password: str = ALICE_SECRET, user: str = "alice") -> dict[str, Any]:
    return {
        **secured.transport,
        "bootstrap_servers": secured.cluster.bootstrap_servers,
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{PLAIN_LOGIN_MODULE} required username="{user}" password="{password}";',
    }


def test_records_are_replicated_and_read(cluster: SecuredNodes) -> None:
    assert asyncio.run(transactional_round_trip(options(cluster))) == list(range(RECORDS))


def test_clients_and_nodes_authenticate_again(
    cluster: SecuredNodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    asyncio.run(produce_for(options(cluster), 7))
    assert "expired" not in caplog.text


def test_brokers_change_their_mechanism_without_a_restart() -> None:
    mechanisms = "listener.name.plaintext.sasl.enabled.mechanisms"
    jaas = f'{SCRAM_LOGIN_MODULE} required username="node" password="{NODE_SECRET}";'
    brokers = [ConfigResource(ResourceType.BROKER, str(number)) for number in (1, 2, 3)]
    config = {
        **CONFIG,
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": jaas,
    }

    async def alter(admin: Admin, name: str, value: str) -> None:
        changes = {broker: [ConfigChange(name=name, value=value)] for broker in brokers}
        assert set((await admin.incremental_alter_configs(changes)).values()) == {None}

    async def run(secured: SecuredNodes) -> int:
        scram = {**options(secured), "sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": jaas}
        topic = await create_topic(options(secured))
        async with Admin(**options(secured)) as admin:
            credential = ScramUpsertion(user="node", password=NODE_SECRET)
            assert await admin.alter_user_scram_credentials([credential]) == {"node": None}
            await alter(admin, mechanisms, "PLAIN,SCRAM-SHA-512")
            await alter(admin, "sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512")
        async with Admin(**scram) as admin:
            # From now on, the sessions of PLAIN end, after 3 s at the latest.
            await alter(admin, mechanisms, "SCRAM-SHA-512")
        loop, count = asyncio.get_running_loop(), 0
        limits: dict[str, Any] = {"delivery_timeout_ms": 20_000, "request_timeout_ms": 10_000}
        async with Producer(**scram, **limits, acks="all") as producer:
            ends = loop.time() + 4
            while loop.time() < ends or count <= 20:
                for partition in range(3):
                    await producer.send_and_wait(topic, b"value", partition=partition)
                    count += 1
                await asyncio.sleep(0.02)
        return count

    with EmbeddedCluster(nodes=3, config=config) as running:
        wait_until(lambda: len(ThreeNodes(running).brokers()) == 3)
        assert asyncio.run(run(SecuredNodes(running, {"security_protocol": "SASL_PLAINTEXT"}))) > 20


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("eve", ALICE_SECRET)])
def test_wrong_credentials_end_at_once(cluster: SecuredNodes, user: str, password: str) -> None:
    async def run() -> None:
        async with Admin(**options(cluster, password, user)) as admin:
            await admin.list_topics()

    with pytest.raises(KafkaError) as raised:
        asyncio.run(run())
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "canary" not in "".join(traceback.format_exception(raised.value))


def test_no_secret_is_logged_or_described(
    cluster: SecuredNodes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def run() -> str:
        async with Admin(**options(cluster)) as admin:
            described = await admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
        return repr(described)

    described = asyncio.run(run())
    assert "sasl.jaas.config" in described
    configs = repr(cluster.cluster.run(lambda node: node.services.config)) + repr(options)
    captured = capfd.readouterr()
    assert "canary" not in described + configs + caplog.text + captured.out + captured.err


def test_a_rejected_change_of_a_secret_does_not_show_it(
    cluster: SecuredNodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys = (
        "listener.name.plaintext.plain.sasl.jaas.config",
        "listener.name.plaintext.ssl.keystore.password",
        "sasl.jaas.config",
        "ssl.key.password",
    )

    async def run(key: str) -> str:
        async with Admin(**options(cluster)) as admin:
            resource = ConfigResource(ResourceType.BROKER, "1")
            change = ConfigChange(name=key, value="canary-new-secret (")
            return repr(await admin.incremental_alter_configs({resource: [change]}))

    for key in keys:
        assert "canary" not in asyncio.run(run(key))
    assert "canary" not in caplog.text


def test_brokers_authenticate_with_scram_credentials_of_the_first_records(tmp_path: Path) -> None:
    jaas = f'{SCRAM_LOGIN_MODULE} required username="node" password="{NODE_SECRET}";'
    names = {"inter.broker.listener.name": "PLAINTEXT", "controller.listener.names": "CONTROLLER"}
    config = {
        **names,
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": jaas,
    }
    properties = tmp_path / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    credential = f"SCRAM-SHA-512=[name=node,password={NODE_SECRET}]"
    tidelog_output("storage", "format", "-c", str(properties), "-t", "A" * 22, "--add-scram", credential)

    async def run() -> set[str]:
        node = await BrokerNode.start(BrokerConfig(config))
        try:
            servers = f"127.0.0.1:{node.bound_port('PLAINTEXT')}"
            own: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
            async with Admin(servers, sasl_jaas_config=jaas, **own) as admin:
                await admin.create_topics([NewTopic(name="events")])
                return set(await admin.list_topics())
        finally:
            await node.stop()

    assert asyncio.run(run()) == {"events"}
