"""The SASL mechanism PLAIN: one message with user name and password.

    [authorization id] NUL user name NUL password

Source: RFC 4616; PlainSaslServer of Apache Kafka 4.3.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from tidelog.security.authentication_error import OTHER_AUTHORIZATION_ID, AuthenticationError

PLAIN: Final = "PLAIN"
MESSAGE_BYTES_MAX: Final = 64 * 1024
_INVALID: Final = "Authentication failed: Invalid username or password"
_ABSENT_PASSWORD: Final = "absent"


def encode_plain(user: str, password: str) -> bytes:
    """Return the client's message; the authorization id is empty, as in Kafka's clients."""
    return b"\0".join((b"", user.encode(), password.encode()))


def authenticate_plain(message: bytes, passwords: Mapping[str, str]) -> str:
    """Return the user of a client's message; raise AuthenticationError if the credentials are not valid.

    The comparison takes the same time for an unknown user and for a wrong password. A user can only act under
    its own name (CVE-2017-12610).
    """
    authorization_id, user, password = _parse(message)
    expected = passwords.get(user)
    # Digests have the same length, so that the comparison does not depend on the length of the password.
    matches = hmac.compare_digest(
        _digest(password), _digest(_ABSENT_PASSWORD if expected is None else expected)
    )
    if expected is None or not matches:
        raise _failure(_INVALID)
    if authorization_id not in ("", user):
        raise _failure(OTHER_AUTHORIZATION_ID)
    return user


def _parse(message: bytes) -> tuple[str, str, str]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise _failure(f"Invalid SASL/PLAIN response: more than {MESSAGE_BYTES_MAX} bytes")
    try:
        tokens = message.decode().split("\0")
    except UnicodeDecodeError:
        # Not chained: the error would contain the password.
        raise _failure("Invalid SASL/PLAIN response: not UTF-8") from None
    if len(tokens) != 3:
        raise _failure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(tokens), 4)}")
    authorization_id, user, password = tokens
    if not user:
        raise _failure("Authentication failed: username not specified")
    if not password:
        raise _failure("Authentication failed: password not specified")
    return authorization_id, user, password


def _digest(password: str) -> bytes:
    return hmac.digest(b"PLAIN", password.encode(errors="surrogatepass"), "sha256")


def _failure(text: str) -> AuthenticationError:
    return AuthenticationError(text, client_text=text)
