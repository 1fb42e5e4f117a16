"""The server's side of one SCRAM exchange.

    CLIENT_FIRST   the first message of the client is expected
    CLIENT_FINAL   the salt was sent; the proof of the client is expected
    COMPLETE       the client is authenticated
    FAILED         the exchange has failed; every further message fails

Legal transitions: CLIENT_FIRST to CLIENT_FINAL, CLIENT_FINAL to COMPLETE, and both to FAILED.

With the extension `tokenauth=true`, the user name is the id of a delegation token, and the client is
authenticated as the owner of the token (KIP-48).

Differences from Apache Kafka: an unknown user fails with the proof, and not already with the first message.
The channel binding of the final message must be that of the first one, as RFC 5802 requires.

Source: RFC 5802; ScramSaslServer of Apache Kafka 4.3.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from enum import Enum, auto
from typing import Final

from tidelog.security.authentication_error import OTHER_AUTHORIZATION_ID, AuthenticationError
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    CredentialLookup,
    ScramCredential,
    ScramMechanism,
    ScramToken,
    TokenLookup,
)
from tidelog.security.scram.messages import (
    TOKEN_EXTENSION,
    ClientFirst,
    auth_message,
    encode_server_first,
    parse_client_final,
    parse_client_first,
)


class ScramState(Enum):
    """The state of an exchange; the head of the file describes each state."""

    CLIENT_FIRST = auto()
    CLIENT_FINAL = auto()
    COMPLETE = auto()
    FAILED = auto()


TRANSITIONS: Final = {
    ScramState.CLIENT_FIRST: frozenset({ScramState.CLIENT_FINAL, ScramState.FAILED}),
    ScramState.CLIENT_FINAL: frozenset({ScramState.COMPLETE, ScramState.FAILED}),
    ScramState.COMPLETE: frozenset[ScramState](),
    ScramState.FAILED: frozenset({ScramState.FAILED}),
}


class ScramServer:
    """Authenticates one client; `nonce` must be unpredictable and unique for each exchange."""

    __slots__ = (
        "_client_first",
        "_credential",
        "_credential_of",
        "_mechanism",
        "_server_first",
        "_token_of",
        "nonce",
        "state",
        "token",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        nonce: str,
        credential_of: CredentialLookup,
        token_of: TokenLookup,
    ) -> None:
        self.state = ScramState.CLIENT_FIRST
        self.nonce = nonce
        """The nonce of the server; from the first message of the client on, that of both."""
        self.token: ScramToken | None = None
        """The delegation token that the client claims to have; None if it uses a password."""
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._token_of = token_of
        self._credential: ScramCredential | None = None
        self._client_first: ClientFirst | None = None
        self._server_first = ""

    @property
    def user(self) -> str:
        """The authenticated user: that of the password, or the owner of the token."""
        assert self.state is ScramState.COMPLETE and self._client_first is not None
        return self._client_first.user if self.token is None else self.token.owner

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message of the client; raise AuthenticationError if it fails."""
        try:
            if self.state is ScramState.CLIENT_FIRST:
                return self._on_client_first(message)
            if self.state is ScramState.CLIENT_FINAL:
                return self._on_client_final(message)
            raise AuthenticationError(f"unexpected SCRAM message in state {self.state.name}")
        except AuthenticationError:
            if self.state is not ScramState.COMPLETE:
                self._transition(ScramState.FAILED)
            self._credential = None
            raise

    def _on_client_first(self, message: bytes) -> bytes:
        first = self._client_first = parse_client_first(message)
        # A user can only act under its own name (CVE-2017-12610).
        if first.authorization_id not in ("", first.user):
            raise AuthenticationError(OTHER_AUTHORIZATION_ID, client_text=OTHER_AUTHORIZATION_ID)
        credential = self._credential = self._find(first)
        if credential.iterations < ITERATIONS_MIN:
            problem = f"a SCRAM credential has {credential.iterations} iterations"
            raise AuthenticationError(f"{problem}; allowed are at least {ITERATIONS_MIN}")
        self.nonce = first.nonce + self.nonce
        self._server_first = encode_server_first(self.nonce, credential.salt, credential.iterations)
        self._transition(ScramState.CLIENT_FINAL)
        return self._server_first.encode()

    def _find(self, first: ClientFirst) -> ScramCredential:
        """Return the credential that the client must have."""
        if first.extensions.get(TOKEN_EXTENSION, "").lower() != "true":
            return self._credential_of(first.user)
        self.token = self._token_of(first.user)
        return self.token.credential

    def _on_client_final(self, message: bytes) -> bytes:
        first, credential = self._client_first, self._credential
        assert first is not None and credential is not None
        final = parse_client_final(message)
        # The whole nonce must be the one that this server sent (CVE-2024-56128).
        if not hmac.compare_digest(final.nonce, self.nonce):
            raise AuthenticationError("the nonce of the final SCRAM message is not that of the exchange")
        if final.channel_binding != first.header.encode():
            raise AuthenticationError(
                "the channel binding of the final SCRAM message differs from the first one"
            )
        hash_name = self._mechanism.hash_name
        signed = auth_message(first.bare, self._server_first, final.unsigned)
        signature = hmac.digest(credential.keys.stored_key, signed, hash_name)
        if len(final.proof) != len(signature):
            raise AuthenticationError(f"a SCRAM proof of {len(final.proof)} bytes")
        client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
        stored_key = hashlib.new(hash_name, client_key).digest()
        # In constant time (CVE-2021-38153).
        if not hmac.compare_digest(stored_key, credential.keys.stored_key):
            raise AuthenticationError("invalid SCRAM credentials")
        server_signature = hmac.digest(credential.keys.server_key, signed, hash_name)
        self._credential = None
        self._transition(ScramState.COMPLETE)
        return b"v=" + b64encode(server_signature)

    def _transition(self, state: ScramState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state
