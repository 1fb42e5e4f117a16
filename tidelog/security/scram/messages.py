"""The four messages of a SCRAM exchange.

    client-first   n,[a=<authorization id>],n=<user>,r=<client nonce>[,<extensions>]
    server-first   r=<nonce>,s=<salt>,i=<iterations>[,<extensions>]
    client-final   c=<channel binding>,r=<nonce>[,<extensions>],p=<proof>
    server-final   v=<server signature>[,<extensions>], or e=<error>

Salt, channel binding, proof and signature are in base64. Channel binding is not supported, as in Kafka.
Texts that do not have exactly this form are rejected.

Errors: AuthenticationError. Source: RFC 5802; ScramMessages of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.security.authentication_error import AuthenticationError

MESSAGE_BYTES_MAX: Final = 16 * 1024
"""The longest message that is parsed; clients send a few hundred bytes."""

TOKEN_EXTENSION: Final = "tokenauth"
"""The extension of the first message whose value `true` means that the user name is that of a token."""

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]++"
# Possessive repetitions: every client can send a message that does not match, which must not take long.
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]++"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]++={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unsigned>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    """The first message of a client; `bare` is the part that is signed, without the GS2 header."""

    header: str
    authorization_id: str
    user: str
    nonce: str
    extensions: Mapping[str, str]
    bare: str


class ServerFirst(NamedTuple):
    """The first message of a server; `text` is the whole message."""

    nonce: str
    salt: bytes
    iterations: int
    text: str


class ClientFinal(NamedTuple):
    """The second message of a client; `unsigned` is the message without the proof."""

    channel_binding: bytes
    nonce: str
    proof: bytes
    unsigned: str


def escape_name(name: str) -> str:
    """Return a user name as it is written in messages."""
    return name.replace("=", "=3D").replace(",", "=2C")


def parse_client_first(message: bytes) -> ClientFirst:
    """Parse the first message of a client."""
    match = _matched(_CLIENT_FIRST, message, "client first message")
    extensions = dict(part.split("=", 1) for part in match["extensions"].split(",")[1:])
    authorization_id = _unescape_name(match["authorization"] or "")
    user = _unescape_name(match["user"])
    return ClientFirst(match["header"], authorization_id, user, match["nonce"], extensions, match["bare"])


def parse_server_first(message: bytes) -> ServerFirst:
    """Parse the first message of a server."""
    match = _matched(_SERVER_FIRST, message, "server first message")
    return ServerFirst(match["nonce"], _decode(match["salt"]), int(match["iterations"]), match.string)


def parse_client_final(message: bytes) -> ClientFinal:
    """Parse the second message of a client."""
    match = _matched(_CLIENT_FINAL, message, "client final message")
    return ClientFinal(_decode(match["binding"]), match["nonce"], _decode(match["proof"]), match["unsigned"])


def parse_server_final(message: bytes) -> bytes:
    """Return the signature in the second message of a server; raise AuthenticationError for an error."""
    match = _matched(_SERVER_FINAL, message, "server final message")
    if match["error"] is not None:
        raise AuthenticationError("the server reports a SCRAM error")
    return _decode(match["signature"])


def encode_server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return the first message of a server."""
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}"


def auth_message(client_first_bare: str, server_first: str, client_final_unsigned: str) -> bytes:
    """Return the text that both sides sign."""
    return ",".join((client_first_bare, server_first, client_final_unsigned)).encode()


def _matched(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationError(f"SCRAM {name} of {len(message)} bytes; at most {MESSAGE_BYTES_MAX}")
    try:
        match = pattern.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        # Not chained and without the message, which may contain a password by mistake.
        raise AuthenticationError(f"SCRAM {name} has an invalid format")
    return match


def _unescape_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise AuthenticationError("SCRAM message has invalid base64") from None
