"""The SASL state of one connection: the allowed messages, the principal, and the end of the session.

    HANDSHAKE          the client must choose a mechanism
    EXCHANGE           messages of the mechanism are exchanged
    AUTHENTICATED      requests are served until the session expires
    REAUTHENTICATION   as EXCHANGE, for a connection that was authenticated before (KIP-368)
    FAILED             the connection is closed

Legal transitions:

    HANDSHAKE          EXCHANGE           the mechanism is enabled
    EXCHANGE           AUTHENTICATED      the exchange is complete
    AUTHENTICATED      REAUTHENTICATION   the same mechanism is chosen again
    REAUTHENTICATION   AUTHENTICATED      the exchange is complete, and the principal is the same
    any of these       FAILED

I/O: none. Source: KIP-152, KIP-368; SaslServerAuthenticator and KafkaChannel of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.security.authentication.exchanges import Exchange, ExchangeFactory, Identity
from tidelog.security.authentication_error import AuthenticationError

REAUTHENTICATION_INTERVAL_MS_MIN: Final = 1000
"""A connection cannot be authenticated again more often than this."""


class SessionState(Enum):
    """The state of a session; the head of the file describes each state."""

    HANDSHAKE = auto()
    EXCHANGE = auto()
    AUTHENTICATED = auto()
    REAUTHENTICATION = auto()
    FAILED = auto()


_HANDSHAKE, _EXCHANGE, _AUTHENTICATED = (
    SessionState.HANDSHAKE,
    SessionState.EXCHANGE,
    SessionState.AUTHENTICATED,
)
_REAUTHENTICATION, _FAILED = SessionState.REAUTHENTICATION, SessionState.FAILED

TRANSITIONS: Final = {
    _HANDSHAKE: frozenset({_EXCHANGE, _FAILED}),
    _EXCHANGE: frozenset({_AUTHENTICATED, _FAILED}),
    _AUTHENTICATED: frozenset({_REAUTHENTICATION, _FAILED}),
    _REAUTHENTICATION: frozenset({_AUTHENTICATED, _FAILED}),
    _FAILED: frozenset[SessionState](),
}


class SaslSession:
    """Authenticates one connection with the mechanisms of its listener."""

    __slots__ = (
        "_config",
        "_create_exchange",
        "_exchange",
        "_expires_ms",
        "_has_requested_versions",
        "_is_failure_counted",
        "can_reauthenticate",
        "counts_until_ms",
        "has_raw_frames",
        "is_token_authenticated",
        "mechanism",
        "principal",
        "reauthentication_started_ms",
        "state",
    )

    def __init__(self, config: SaslListenerConfig, create_exchange: ExchangeFactory) -> None:
        self.state = _HANDSHAKE
        self.mechanism: str | None = None
        self.principal: str | None = None
        """The authenticated principal; None before the first authentication."""
        self.is_token_authenticated = False
        """Whether the client has authenticated with a delegation token."""
        self.counts_until_ms = 0
        """Until this monotonic time, a failed connection counts for its address, even if it ends earlier."""
        self._is_failure_counted = False
        """Whether the failure of this connection is counted."""
        self.has_raw_frames = False
        """Whether messages are frames without a header, after a handshake of version 0."""
        self._has_requested_versions = False
        """Whether the client has sent ApiVersions, which is served once before the authentication."""
        self.can_reauthenticate = False
        """Whether the client receives the lifetime of its session: with SaslAuthenticate 1 or later."""
        self.reauthentication_started_ms: int | None = None
        """The start of the last re-authentication; None before the first one."""
        self._config = config
        self._create_exchange = create_exchange
        self._exchange: Exchange | None = None
        self._expires_ms: int | None = None

    @property
    def admits_versions_request(self) -> bool:
        """Whether ApiVersions may be served."""
        return self.state is _HANDSHAKE and not self._has_requested_versions

    @property
    def is_exchanging(self) -> bool:
        """Whether a message of the mechanism is expected."""
        return self.state is _EXCHANGE or self.state is _REAUTHENTICATION

    @property
    def is_rejected(self) -> bool:
        """Whether the credentials are rejected, and the client must acknowledge this."""
        return self._exchange is not None and self._exchange.is_rejected

    @property
    def error_text(self) -> str:
        """The error message for the client, the same for an unknown user and for a wrong password."""
        kind = "re-authentication" if self.principal is not None else "authentication"
        reason = f"invalid credentials with SASL mechanism {self.mechanism}"
        return f"Authentication failed during {kind} due to {reason}"

    @property
    def has_lifetime(self) -> bool:
        """Whether the session expires."""
        return self._expires_ms is not None

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the session has expired without a re-authentication."""
        return self._expires_ms is not None and now_ms > self._expires_ms

    def on_versions_requested(self) -> None:
        """Serve no further ApiVersions before the authentication."""
        self._has_requested_versions = True

    def count_failure(self, until_ms: int) -> bool:
        """Let the connection count for its address until `until_ms`; return whether the failure is new."""
        is_new, self._is_failure_counted = not self._is_failure_counted, True
        self.counts_until_ms = until_ms
        return is_new

    def admit_reauthentication(self, now_ms: int) -> bool:
        """Return whether a handshake may begin a re-authentication: only if the session expires."""
        if self.state is not _AUTHENTICATED or self._expires_ms is None:
            return False
        last_ms = self.reauthentication_started_ms
        if last_ms is not None and now_ms - last_ms < REAUTHENTICATION_INTERVAL_MS_MIN:
            return False
        self.reauthentication_started_ms = now_ms
        return True

    def configure(self, config: SaslListenerConfig, create_exchange: ExchangeFactory) -> None:
        """Use these settings for the next exchange."""
        assert not self.is_exchanging
        self._config = config
        self._create_exchange = create_exchange

    def choose(self, mechanism: str, *, has_raw_frames: bool) -> None:
        """Begin an exchange with `mechanism`; raise AuthenticationError if it is not allowed."""
        assert self.state in (_HANDSHAKE, _AUTHENTICATED), f"handshake in state {self.state.name}"
        if mechanism not in self._config.mechanisms:
            self.fail()
            raise AuthenticationError("the client requests a SASL mechanism that is not enabled")
        if self.mechanism not in (None, mechanism):
            self.fail()
            raise AuthenticationError(f"re-authentication with {mechanism} instead of {self.mechanism}")
        self.mechanism = mechanism
        self.has_raw_frames = has_raw_frames
        self._exchange = self._create_exchange(mechanism)
        self._transition(_EXCHANGE if self.state is _HANDSHAKE else _REAUTHENTICATION)

    def evaluate(self, message: bytes, now_ms: int, *, can_reauthenticate: bool = False) -> bytes:
        """Return the response to a message of the mechanism; raise AuthenticationError if it fails."""
        self.can_reauthenticate = can_reauthenticate
        exchange = self._exchange
        assert exchange is not None and self.is_exchanging
        try:
            response = exchange.evaluate(message)
            if exchange.identity is not None:
                self._complete(exchange.identity, now_ms)
        except AuthenticationError:
            self.fail()
            raise
        return response

    def lifetime_ms(self, now_ms: int) -> int:
        """Return the time until the session expires; 0 if it does not expire or is not authenticated."""
        if self.state is not _AUTHENTICATED or self._expires_ms is None:
            return 0
        return self._expires_ms - now_ms

    def fail(self) -> None:
        """End the session; allow no further message."""
        self._exchange = None
        if self.state is not _FAILED:
            self._transition(_FAILED)

    def _complete(self, identity: Identity, now_ms: int) -> None:
        principal = f"User:{identity.user}"
        if self.principal not in (None, principal):
            text = f"Cannot change principals during re-authentication from {self.principal}: {principal}"
            raise AuthenticationError(text, client_text=text)
        assert self.mechanism is not None
        limit_ms = self._config.reauthentication_ms[self.mechanism]
        limits = [limit_ms] if limit_ms > 0 else []
        if identity.lifetime_ms is not None:
            limits.append(identity.lifetime_ms)
        self.principal = principal
        self.is_token_authenticated = identity.is_token
        self._expires_ms = now_ms + min(limits) if limits else None
        self._exchange = None
        self._transition(_AUTHENTICATED)

    def _transition(self, state: SessionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state
