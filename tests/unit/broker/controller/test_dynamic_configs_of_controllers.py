"""Dynamic configs of a node that is only a controller: certificates and connection limits."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.nodes.quorum_nodes import QuorumNodes
from tests.support.waiting import eventually, wait_until
from tidelog.clients.admin.types import ResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.security.certificate_authority import Authority, Identity

NODE = 101
AUTHORITY = Authority.create()
KEY_STORE = "listener.name.secure.ssl.keystore.location"


class SecuredController:
    """A controller with a listener without TLS, and one with TLS."""

    def __init__(self, nodes: QuorumNodes) -> None:
        self.nodes = nodes

    async def alter(self, key: str, value: str) -> None:
        """Set a dynamic config of the node."""
        change = AlterableConfig(name=key, value=value)
        resource = AlterConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(NODE), configs=(change,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        response = await self.nodes.send_request(NODE, request, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code == ErrorCode.NONE

    def presented_certificate(self) -> str:
        """Return the certificate of a new connection."""
        port = self.nodes.running[NODE].bound_port("SECURE")
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=5)

    async def wait_until_presented(self, identity: Identity) -> None:
        """Wait until new connections get a certificate."""
        chain = identity.chain_pem()
        await asyncio.to_thread(wait_until, lambda: self.presented_certificate() in chain)

    def is_refused(self) -> bool:
        """Return whether a new connection without TLS is closed at once."""
        with socket.create_connection(("127.0.0.1", self.nodes.ports[NODE]), timeout=0.2) as connection:
            try:
                return connection.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionResetError:
                return True


@asynccontextmanager
async def controller(key_store: Path) -> AsyncIterator[SecuredController]:
    nodes = QuorumNodes([NODE])
    nodes.settings |= {
        "listeners": f"CONTROLLER://127.0.0.1:{nodes.ports[NODE]},SECURE://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER,SECURE",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SECURE:SSL",
        "listener.name.secure.ssl.keystore.type": "PEM",
        KEY_STORE: str(key_store),
    }
    try:
        await nodes.start()
        await nodes.wait_for_leader()
        yield SecuredController(nodes)
    finally:
        await nodes.end()


async def test_a_controller_uses_the_certificate_of_a_dynamic_config(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    first, second = AUTHORITY.issue("controller"), AUTHORITY.issue("controller")
    async with controller(first.write_pem(tmp_path / "first.pem")) as secured:
        await secured.wait_until_presented(first)
        await secured.alter(KEY_STORE, str(second.write_pem(tmp_path / "second.pem")))
        await secured.wait_until_presented(second)
        await secured.alter(KEY_STORE, str(tmp_path / "missing.pem"))
        await eventually(lambda: "keeping the former certificate" in caplog.text)
        await secured.wait_until_presented(second)
        # The certificate of the stored config is used after a restart, too.
        await secured.alter(KEY_STORE, str(tmp_path / "second.pem"))
        await secured.nodes.stop(NODE)
        await secured.nodes.start()
        await secured.wait_until_presented(second)


async def test_a_controller_applies_dynamic_connection_limits(tmp_path: Path) -> None:
    identity = AUTHORITY.issue("controller")
    async with controller(identity.write_pem(tmp_path / "first.pem")) as secured:
        assert not await asyncio.to_thread(secured.is_refused)
        with socket.create_connection(("127.0.0.1", secured.nodes.ports[NODE])):
            await secured.alter("max.connections.per.ip", "1")
            await asyncio.to_thread(wait_until, secured.is_refused)
