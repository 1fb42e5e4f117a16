"""The server's side of one OAUTHBEARER exchange.

    TOKEN      the first message of the client, with its token, is expected
    REJECTED   the token was rejected; the client must acknowledge this
    COMPLETE   the client is authenticated
    FAILED     the exchange has failed; every further message fails

Legal transitions: TOKEN to REJECTED and COMPLETE, and TOKEN and REJECTED to FAILED.

A difference from Apache Kafka: it accepts another token instead of the acknowledgement. Here the exchange
then fails, so that a connection cannot test many tokens.

Source: RFC 7628; OAuthBearerSaslServer of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeAlias

from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.oauthbearer.messages import (
    FAILURE_ACKNOWLEDGEMENT,
    encode_failure,
    parse_client_first,
)
from tidelog.security.oauthbearer.token import BearerToken, TokenError

TokenValidation: TypeAlias = Callable[[str], BearerToken]
"""Returns the verified token with a value; raises TokenError."""


class OAuthBearerState(Enum):
    """The state of an exchange; the head of the file describes each state."""

    TOKEN = auto()
    REJECTED = auto()
    COMPLETE = auto()
    FAILED = auto()


TRANSITIONS: Final = {
    OAuthBearerState.TOKEN: frozenset(
        {OAuthBearerState.REJECTED, OAuthBearerState.COMPLETE, OAuthBearerState.FAILED}
    ),
    OAuthBearerState.REJECTED: frozenset({OAuthBearerState.FAILED}),
    OAuthBearerState.COMPLETE: frozenset[OAuthBearerState](),
    OAuthBearerState.FAILED: frozenset({OAuthBearerState.FAILED}),
}


class OAuthBearerServer:
    """Authenticates one client by its token."""

    __slots__ = ("_failure", "_reason", "_token", "_validate", "state")

    def __init__(self, validate: TokenValidation) -> None:
        self.state = OAuthBearerState.TOKEN
        self._validate = validate
        self._token: BearerToken | None = None
        self._reason = ""
        self._failure = b""

    @property
    def token(self) -> BearerToken:
        """The token of the authenticated client."""
        assert self._token is not None
        return self._token

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message of the client; raise AuthenticationError if it fails."""
        try:
            if self.state is OAuthBearerState.TOKEN:
                return self._on_client_first(message)
            if self.state is OAuthBearerState.REJECTED and message == FAILURE_ACKNOWLEDGEMENT:
                raise AuthenticationError(self._reason, client_text=self._failure.decode())
            raise AuthenticationError(f"unexpected OAUTHBEARER message in state {self.state.name}")
        except AuthenticationError:
            if self.state is not OAuthBearerState.COMPLETE:
                self._transition(OAuthBearerState.FAILED)
            raise

    def _on_client_first(self, message: bytes) -> bytes:
        first = parse_client_first(message)
        try:
            token = self._validate(first.token)
        except TokenError as error:
            self._reason = str(error)
            self._failure = encode_failure(error.status, error.scope)
            self._transition(OAuthBearerState.REJECTED)
            return self._failure
        # A client can only act under its own name.
        if first.authorization_id not in ("", token.principal):
            text = (
                "Authentication failed: Client requested an authorization id that is different from the "
                "token's principal name"
            )
            raise AuthenticationError(text, client_text=text)
        self._token = token
        self._transition(OAuthBearerState.COMPLETE)
        return b""

    def _transition(self, state: OAuthBearerState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state
