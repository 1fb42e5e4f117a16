"""The TLS state of a connection: records in arbitrary pieces, missing bytes, and bounds."""

from __future__ import annotations

import ssl
import struct
from pathlib import Path

import pytest

from tests.support.security.key_updates import SUITE, client_secret, key_updates
from tests.support.security.tls_listener import context_that_trusts, tls_server
from tidelog.broker.network.tls_session import (
    EMPTY_RECORDS_MAX,
    RECORDS_MAX,
    InvalidRecordsError,
    TlsSession,
)

SERVER = tls_server()
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class ConnectedClient:
    """A client and the session under test after their handshake; both are in memory."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, key_log: Path | None = None) -> None:
        context = context_that_trusts()
        context.minimum_version = context.maximum_version = version
        if key_log is not None:
            context.keylog_filename = str(key_log)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.session = TlsSession(SERVER.context)
        is_complete = False
        while not is_complete:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            receive(self.session, self.outgoing.read())
            is_complete = self.session.continue_handshake()
            self.incoming.write(self.session.take_outgoing())

    def encrypted(self, *parts: bytes) -> bytes:
        """Return one record for each part, or several for a large part."""
        for part in parts:
            self.tls.write(part)
        return self.outgoing.read()


def receive(session: TlsSession, ciphertext: bytes) -> None:
    session.receive(memoryview(session.rest + ciphertext))


def read_all(session: TlsSession, view_bytes: int = 100_000) -> bytes:
    view, plaintext = memoryview(bytearray(view_bytes)), b""
    while session.has_unread:
        count = session.read_into(view)
        plaintext += view[:count]
    return plaintext


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("piece_bytes", [1, 4, 5, 6, 1_000, 16_406, 100_000])
@pytest.mark.parametrize("view_bytes", [7, 1_000, 100_000])
def test_records_are_decrypted_whatever_the_pieces_and_the_memory(
    version: ssl.TLSVersion, piece_bytes: int, view_bytes: int
) -> None:
    client = ConnectedClient(version)
    parts = [bytes([number]) * size for number, size in enumerate((1, 26, 1_024, 16_384, 40_000, 3))]
    ciphertext = client.encrypted(*parts)
    plaintext = b""
    for start in range(0, len(ciphertext), piece_bytes):
        receive(client.session, ciphertext[start : start + piece_bytes])
        plaintext += read_all(client.session, view_bytes)
    assert plaintext == b"".join(parts)
    assert not client.session.rest


@pytest.mark.parametrize("version", VERSIONS)
def test_never_more_bytes_are_missing_than_the_client_sends(version: ssl.TLSVersion) -> None:
    client = ConnectedClient(version)
    ciphertext = client.encrypted(b"a", b"b" * 200, b"c" * 20, b"d" * 500, b"e")
    plaintext_bytes, position = 722, 0
    for position in range(1, len(ciphertext)):
        receive(client.session, ciphertext[position - 1 : position])
        plaintext_bytes -= len(read_all(client.session))
        missing = client.session.missing_bytes(plaintext_bytes)
        assert 0 < missing <= len(ciphertext) - position
        # All bytes of the frame, without what each record adds.
        assert missing >= plaintext_bytes - len(client.session.rest)


def test_the_rest_of_a_record_is_missing_even_if_the_size_of_the_frame_is_unknown() -> None:
    client = ConnectedClient()
    ciphertext = client.encrypted(bytes(1_000))
    receive(client.session, ciphertext[:3])
    assert client.session.missing_bytes(0) == 2
    receive(client.session, ciphertext[3:100])
    assert client.session.missing_bytes(0) == len(ciphertext) - 100
    receive(client.session, ciphertext[100:])
    assert read_all(client.session) == bytes(1_000)
    assert client.session.missing_bytes(0) == 0


def test_a_bounded_number_of_records_is_decrypted_at_once() -> None:
    client = ConnectedClient()
    receive(client.session, client.encrypted(*[b"x"] * (3 * RECORDS_MAX)))
    view, counts = memoryview(bytearray(10_000)), []
    while client.session.has_unread:
        counts.append(client.session.read_into(view))
    assert max(counts) == RECORDS_MAX and sum(counts) == 3 * RECORDS_MAX


def test_a_record_that_is_too_long_is_rejected_before_it_is_complete() -> None:
    client = ConnectedClient()
    receive(client.session, struct.pack(">BHH", 23, 0x0303, 65_535) + bytes(100))
    with pytest.raises(InvalidRecordsError):
        read_all(client.session)


def test_an_altered_record_is_an_error_and_the_client_gets_an_alert() -> None:
    client = ConnectedClient()
    ciphertext = bytearray(client.encrypted(b"first", b"second"))
    ciphertext[-1] ^= 1
    receive(client.session, bytes(ciphertext))
    with pytest.raises(InvalidRecordsError):
        read_all(client.session)
    client.incoming.write(client.session.take_outgoing())
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        client.tls.read()


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_read_after_close_notify(version: ssl.TLSVersion) -> None:
    client = ConnectedClient(version)
    data = client.encrypted(b"data")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    receive(client.session, data + client.outgoing.read())
    assert read_all(client.session) == b"data"
    assert client.session.has_peer_closed


def test_a_large_write_is_encrypted_completely() -> None:
    client = ConnectedClient()
    data = bytes(range(256)) * 256
    client.session.write(data)
    client.incoming.write(client.session.take_outgoing())
    received = b""
    while len(received) < len(data):
        received += client.tls.read(len(data))
    assert received == data


def test_a_few_key_updates_are_accepted(tmp_path: Path) -> None:
    client = ConnectedClient(key_log=tmp_path / "keys")
    assert client.session.tls.cipher()[0] == SUITE
    receive(client.session, key_updates(client_secret(tmp_path / "keys"), 20))
    assert read_all(client.session) == b""
    assert not client.session.has_peer_closed


def test_a_client_that_sends_only_key_updates_is_rejected(tmp_path: Path) -> None:
    client = ConnectedClient(key_log=tmp_path / "keys")
    secret = client_secret(tmp_path / "keys")
    receive(client.session, key_updates(secret, 10 * EMPTY_RECORDS_MAX))
    with pytest.raises(InvalidRecordsError, match="records without data"):
        read_all(client.session)


def test_the_records_of_a_handshake_are_not_counted_as_records_without_data() -> None:
    client = ConnectedClient()
    client.session._empty_records += EMPTY_RECORDS_MAX - 1
    receive(client.session, client.encrypted(b"x"))
    assert read_all(client.session) == b"x"
