"""The client's side of one SCRAM exchange: `first`, then `respond`, then `verify`.

The server is authenticated, too: its signature proves that it has the keys of the user.

Source: RFC 5802; ScramSaslClient of Apache Kafka 4.3.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import Final

from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    ScramMechanism,
    derive_client_key,
    derive_keys,
    salt_password,
)
from tidelog.security.scram.messages import (
    TOKEN_EXTENSION,
    auth_message,
    escape_name,
    parse_server_final,
    parse_server_first,
)

SERVER_ITERATIONS_MAX: Final = 100_000
"""A server that requires more iterations is rejected, because they would block the client."""
_GS2_HEADER: Final = "n,,"


class ScramClient:
    """Proves that the client has a password; `nonce` must be unpredictable and unique for each exchange.

    `is_token`: `user` is the id of a delegation token, and `password` its HMAC in base64.
    """

    __slots__ = ("_bare", "_mechanism", "_nonce", "_password", "_server_signature")

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        extension = f",{TOKEN_EXTENSION}=true" if is_token else ""
        self._bare = f"n={escape_name(user)},r={nonce}{extension}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return (_GS2_HEADER + self._bare).encode()

    def respond(self, server_first: bytes) -> bytes:
        """Return the second message; raise AuthenticationError for an invalid message of the server."""
        received = parse_server_first(server_first)
        if not received.nonce.startswith(self._nonce) or received.nonce == self._nonce:
            raise AuthenticationError("the server has not extended the SCRAM nonce of the client")
        if not ITERATIONS_MIN <= received.iterations <= SERVER_ITERATIONS_MAX:
            raise AuthenticationError(
                f"the server requires {received.iterations} SCRAM iterations; "
                f"allowed are {ITERATIONS_MIN} to {SERVER_ITERATIONS_MAX}"
            )
        mechanism = self._mechanism
        salted = salt_password(mechanism, self._password, received.salt, received.iterations)
        unsigned = f"c={b64encode(_GS2_HEADER.encode()).decode()},r={received.nonce}"
        signed = auth_message(self._bare, received.text, unsigned)
        client_key = derive_client_key(mechanism, salted)
        stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
        signature = hmac.digest(stored_key, signed, mechanism.hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = derive_keys(mechanism, salted).server_key
        self._server_signature = hmac.digest(server_key, signed, mechanism.hash_name)
        return f"{unsigned},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check the last message of the server; raise AuthenticationError if its signature is wrong."""
        if not self._server_signature or not hmac.compare_digest(
            parse_server_final(server_final), self._server_signature
        ):
            raise AuthenticationError("the SCRAM signature of the server is wrong")
