"""Verifies that nodes with the same settings can connect to each other, by a handshake in memory.

As in Kafka, this is done for listeners on which nodes connect to each other: when they start, and before a
certificate is replaced.

Source: SslFactory.SslEngineValidator of Apache Kafka 4.3.
"""

from __future__ import annotations

import ssl
from typing import Final

from tidelog.security.tls.client import ClientIdentity
from tidelog.security.tls.server import ServerIdentity

_ROUNDS_MAX: Final = 10


def check_handshake(server: ServerIdentity, client: ClientIdentity) -> None:
    """Raise ConfigError if a node with the identity `client` cannot connect to one with `server`."""
    problem = _problem(server.context, client.any_host)
    if problem is not None:
        store = server.settings.key_store
        assert store is not None
        raise store.content_error(f"nodes with these stores cannot connect to each other: {problem}")


def _problem(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_ROUNDS_MAX):
        incomplete = []
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                incomplete.append(side)
            except ssl.SSLError as error:
                return getattr(error, "verify_message", None) or error.reason or str(error)
        if not incomplete:
            return None
        sides = incomplete
    return "the handshake is incomplete"
