"""The messages of OAUTHBEARER.

    first message of the client   n,[a=<authorization id>],^A auth=Bearer <token>^A (<name>=<value>^A)* ^A
    response to a valid token     empty
    response to another token     {"status":"<reason>"[, "scope":"<required scope>"]}
    second message of the client  ^A, after which the server ends the exchange

`^A` is the byte 1; there are no spaces around it. `name=value` pairs other than `auth` are SASL extensions.

Source: RFC 7628, KIP-255, KIP-342; OAuthBearerClientInitialResponse of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.security.authentication_error import AuthenticationError

OAUTHBEARER: Final = "OAUTHBEARER"
MESSAGE_BYTES_MAX: Final = 64 * 1024
FAILURE_ACKNOWLEDGEMENT: Final = b"\x01"
"""The second message of a client, after its token was rejected."""

_SEPARATOR: Final = "\x01"
_AUTH: Final = "auth"
_KEY: Final = r"[A-Za-z]++"
_VALUE: Final = r"[\x21-\x7e \t\r\n]++"
# Possessive repetitions: every client can send a message that does not match, which must not take long.
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*+)\x01"
)
_CREDENTIALS: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]++) ++(?P<token>[-_~+/.A-Za-z0-9]++=*+)")
_EXTENSION_NAME: Final = re.compile(_KEY)
_EXTENSION_VALUE: Final = re.compile(_VALUE)
_INVALID: Final = "Invalid OAUTHBEARER client first message"


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client; the token is hidden in the representation."""

    token: str = field(repr=False)
    authorization_id: str
    extensions: Mapping[str, str] = field(repr=False)


def parse_client_first(message: bytes) -> ClientFirst:
    """Return the contents of a client's first message. Raise AuthenticationError, without the token."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationError(f"{_INVALID}: more than {MESSAGE_BYTES_MAX} bytes")
    found = _FIRST.fullmatch(message.decode("latin-1"))
    if found is None:
        raise AuthenticationError(_INVALID)
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR)[:-1])
    credentials = pairs.pop(_AUTH, None)
    if credentials is None:
        raise AuthenticationError(f"{_INVALID}: 'auth' not specified")
    matched = _CREDENTIALS.fullmatch(credentials)
    if matched is None:
        raise AuthenticationError(f"{_INVALID}: invalid 'auth' format")
    if matched["scheme"].lower() != "bearer":
        raise AuthenticationError(f"{_INVALID}: the scheme is not Bearer")
    return ClientFirst(matched["token"], found["authorization_id"] or "", pairs)


def encode_client_first(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the client's first message, without an authorization id, as in Kafka's clients."""
    pairs = {_AUTH: f"Bearer {token}", **extensions}
    text = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
    return f"n,,{_SEPARATOR}{text}{_SEPARATOR}".encode()


def invalid_extension(extensions: Mapping[str, str]) -> str | None:
    """Return what is wrong with the first invalid extension, without its value; None if all are valid."""
    for name, value in extensions.items():
        if name == _AUTH or _EXTENSION_NAME.fullmatch(name) is None:
            return f"the extension name {name!r} is invalid; allowed are letters, but not the name auth"
        if _EXTENSION_VALUE.fullmatch(value) is None:
            return f"the value of the extension {name} is invalid; allowed is printable ASCII, not empty"
    return None


def encode_failure(status: str, scope: str | None = None) -> bytes:
    """Return the response to a token that is not valid; both texts are ASCII without quotation marks."""
    required = "" if scope is None else f', "scope":"{scope}"'
    return f'{{"status":"{status}"{required}}}'.encode()
