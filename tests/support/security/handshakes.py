"""TLS handshakes in memory, without sockets."""

from __future__ import annotations

import ssl
from typing import NamedTuple


class Handshake(NamedTuple):
    """The result of a handshake: version, cipher suite, and the client's certificate if there is one."""

    version: str | None
    cipher: str
    client_certificate: bytes | None


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> Handshake:
    """Complete a handshake and send one byte. Raises ssl.SSLError of the side that fails first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    connecting = client.wrap_bio(to_client, to_server, server_hostname=host)
    pending = {serving, connecting}
    for _ in range(10):
        for side in (connecting, serving):
            if side not in pending:
                continue
            try:
                side.do_handshake()
                pending.discard(side)
            except ssl.SSLWantReadError:
                pass
    assert not pending, "the handshake is incomplete"
    serving.write(b"x")
    assert connecting.read() == b"x"
    cipher = serving.cipher()
    assert cipher is not None
    return Handshake(serving.version(), cipher[0], serving.getpeercert(binary_form=True))
