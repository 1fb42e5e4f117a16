"""Records of TLS after a complete handshake that cost much more than they carry (issue 13)."""

from __future__ import annotations

import socket
import ssl
import struct
import tempfile
from itertools import count
from pathlib import Path
from typing import Final

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.support.security.key_updates import client_secret, key_updates

KEY_UPDATES: Final = 2_000
SMALL_RECORDS: Final = 20_000
RECEIVED_BYTES: Final = 16_384
FRAME_BYTES: Final = 50 * MEBIBYTE


def _client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _handshake(connection: socket.socket, context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """Complete a handshake; return the TLS state of the client and the bytes that it is going to send."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            connection.sendall(outgoing.read())
            return tls, outgoing
        except ssl.SSLWantReadError:
            connection.sendall(outgoing.read())
            incoming.write(connection.recv(RECEIVED_BYTES))


def _send_key_updates(context: AttackContext) -> None:
    """Update the keys of each connection as often as the broker accepts it."""
    with tempfile.TemporaryDirectory() as folder:
        context.begin()
        for number in count(1):
            tls_context, key_log = _client_context(), Path(folder) / str(number)
            tls_context.keylog_filename = str(key_log)
            connection = context.connect(context.target.tls_address)
            _handshake(connection, tls_context)
            try:
                connection.sendall(key_updates(client_secret(key_log), context.size(KEY_UPDATES, 500)))
                while connection.recv(RECEIVED_BYTES):
                    pass
            except TimeoutError:
                context.expect(False, "key updates without end do not end the connection")
            except ConnectionError:
                pass
            context.close_connection(connection)
            if context.has_ended:
                context.note(f"{number:,} connections")
                return


def _send_small_records(context: AttackContext) -> None:
    """Send a large frame with one byte in each record."""
    connection = context.connect(context.target.tls_address)
    tls, outgoing = _handshake(connection, _client_context())
    tls.write(struct.pack(">i", FRAME_BYTES))
    context.begin()
    sent = 0
    while not context.has_ended:
        for _ in range(context.size(SMALL_RECORDS, 2_000)):
            tls.write(b"\0")
            sent += 1
        connection.sendall(outgoing.read())
    context.note(f"{sent:,} records")


ATTACKS = (
    Attack(
        name="key-updates",
        item="issue 13",
        actions="after a TLS handshake, key updates without end, on one connection after the other",
        run=_send_key_updates,
    ),
    Attack(
        name="small-tls-records",
        item="issue 13",
        actions="a frame of 50 MiB over TLS, with one byte in each record",
        run=_send_small_records,
    ),
)
