"""Certificates of listeners are replaced while the node runs."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import RunningServer, echo
from tests.support.security.handshakes import handshake
from tests.support.waiting import eventually
from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring import tls_certificates
from tidelog.broker.node.wiring.network_settings import listener_config
from tidelog.broker.node.wiring.node_tls import NodeTls
from tidelog.broker.node.wiring.tls_certificates import TlsCertificates
from tidelog.security.certificate_authority import Authority, Identity
from tidelog.security.tls.contexts import client_context, server_context
from tidelog.security.tls.settings import parse_tls_settings

AUTHORITY = Authority.create()
FIRST, SECOND = AUTHORITY.issue("broker"), AUTHORITY.issue("broker")


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are checked often."""
    monkeypatch.setattr(tls_certificates, "CHECK_INTERVAL_S", 0.02)


def config_of(path: Path, **changes: str) -> BrokerConfig:
    texts = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.name.ssl.ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.location": str(path),
    }
    return BrokerConfig({**texts, **{key.replace("_", "."): text for key, text in changes.items()}})


class Node:
    """A listener with TLS whose certificates are replaced."""

    def __init__(self, served: RunningServer, certificates: TlsCertificates, config: BrokerConfig) -> None:
        self.served = served
        self.certificates = certificates
        (self.listener,) = (one for one in config.broker_listeners if one.name == "SSL")

    async def presented_serial_number(self) -> int:
        """Return the serial number of the certificate that a new connection receives."""
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem()}
        client = await self.served.connect(tls=client_context(parse_tls_settings(trusted)))
        tls = client.writer.get_extra_info("ssl_object")
        assert isinstance(tls, ssl.SSLObject)
        certificate = tls.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)

    async def wait_until_used(self, identity: Identity) -> None:
        """Wait until new connections get a certificate."""
        tls = self.served.server.listeners["SSL"].tls
        assert tls is not None
        await eventually(lambda: tls.identity.certificate == identity.certificate)
        assert await self.presented_serial_number() == identity.certificate.serial_number


@asynccontextmanager
async def run_node(config: BrokerConfig) -> AsyncIterator[Node]:
    server = NetworkServer(network_config())
    with ThreadPoolExecutor(1) as executor:
        certificates = TlsCertificates(server, config.broker_listeners, config, NodeTls(config), executor)
        for listener in config.broker_listeners:
            server.bind(listener_config(config, listener), echo)
        await server.start()
        certificates.start()
        served = RunningServer(server, server.port("SSL"))
        try:
            yield Node(served, certificates, config)
        finally:
            served.close_connections()
            await certificates.close()
            await server.close(0)


@on_both_loops
async def test_a_changed_file_replaces_the_certificate_of_new_connections(tmp_path: Path) -> None:
    path = FIRST.write_pem(tmp_path / "broker.pem")
    async with run_node(config_of(path)) as node:
        assert await node.presented_serial_number() == FIRST.certificate.serial_number
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem()}
        open_before = await node.served.connect(tls=client_context(parse_tls_settings(trusted)))
        SECOND.write_pem(path)
        await node.wait_until_used(SECOND)
        assert await open_before.send_request(b"still open") == b"still open"


@on_both_loops
async def test_changed_settings_replace_the_certificate(tmp_path: Path) -> None:
    path = FIRST.write_pem(tmp_path / "broker.pem")
    async with run_node(config_of(path)) as node:
        node.certificates.apply(config_of(SECOND.write_pem(tmp_path / "second.pem")))
        await node.wait_until_used(SECOND)


@on_both_loops
async def test_an_invalid_file_is_reported_once_and_the_previous_certificate_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = FIRST.write_pem(tmp_path / "broker.pem")
    async with run_node(config_of(path)) as node:
        path.write_text("garbage")
        await eventually(lambda: "Cannot replace the certificate of listener SSL" in caplog.text)
        assert await node.presented_serial_number() == FIRST.certificate.serial_number
        SECOND.write_pem(path)
        await node.wait_until_used(SECOND)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1 and "found 0 private keys" in errors[0].message


@pytest.mark.parametrize("kind", ["subject", "names"])
@on_both_loops
async def test_a_certificate_with_other_names_is_used_only_if_that_is_allowed(
    tmp_path: Path, kind: str
) -> None:
    other = {
        "subject": AUTHORITY.issue("another broker"),
        "names": AUTHORITY.issue("broker", ("localhost",)),
    }[kind]
    allowed = {"subject": {"ssl_allow_dn_changes": "true"}, "names": {"ssl_allow_san_changes": "true"}}[kind]
    path = FIRST.write_pem(tmp_path / "broker.pem")
    async with run_node(config_of(path)) as node:
        other.write_pem(path)
        with pytest.raises(ConfigError, match=r"listener\.name\.ssl\.ssl\.keystore\.location"):
            await node.certificates.load(config_of(path), node.listener)
        node.certificates.apply(config_of(path, **allowed))
        await node.wait_until_used(other)


@on_both_loops
async def test_a_named_pipe_is_rejected_without_waiting(tmp_path: Path) -> None:
    path = FIRST.write_pem(tmp_path / "broker.pem")
    os.mkfifo(tmp_path / "pipe")
    async with run_node(config_of(path)) as node:
        with pytest.raises(ConfigError, match="allowed is a regular file"):
            await node.certificates.load(config_of(tmp_path / "pipe"), node.listener)


@on_both_loops
async def test_a_broker_replaces_its_certificate_for_connections_to_controllers(tmp_path: Path) -> None:
    path = FIRST.write_pem(tmp_path / "broker.pem")
    config = BrokerConfig(
        {
            "node.id": "1",
            "process.roles": "broker",
            "controller.quorum.voters": "2@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
            "listener.name.controller.ssl.keystore.type": "PEM",
            "listener.name.controller.ssl.keystore.location": str(path),
            "listener.name.controller.ssl.truststore.type": "PEM",
            "listener.name.controller.ssl.truststore.certificates": AUTHORITY.pem(),
        }
    )
    tls = NodeTls(config)
    client = tls.client("CONTROLLER")
    assert client is not None
    with ThreadPoolExecutor(1) as executor:
        listeners = (config.listener_of_nodes("CONTROLLER"),)
        certificates = TlsCertificates(NetworkServer(network_config()), listeners, config, tls, executor)
        certificates.start()
        try:
            former = client.identity
            SECOND.write_pem(path)
            await eventually(lambda: client.identity is not former)
            context = server_context(
                parse_tls_settings(
                    {
                        "ssl.keystore.type": "PEM",
                        "ssl.keystore.location": str(path),
                        "ssl.truststore.type": "PEM",
                        "ssl.truststore.certificates": AUTHORITY.pem(),
                        "ssl.client.auth": "required",
                    }
                )
            )[0]
            certificate = handshake(context, client.context()).client_certificate
            assert certificate == SECOND.certificate.public_bytes(Encoding.DER)
        finally:
            await certificates.close()
