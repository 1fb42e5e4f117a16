"""The server's side of the exchange of each supported SASL mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness
from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.broker.security.authentication.token_credentials import TokenCredentials
from tidelog.security.oauthbearer.messages import OAUTHBEARER
from tidelog.security.oauthbearer.server import OAuthBearerServer, OAuthBearerState, TokenValidation
from tidelog.security.plain import PLAIN, authenticate_plain
from tidelog.security.scram.credentials import SCRAM_MECHANISMS, ScramMechanism, random_text
from tidelog.security.scram.server import ScramServer, ScramState


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that a complete exchange has authenticated.

    `lifetime_ms`: the time until the credential expires; None if it does not expire. `is_token`: the
    credential is a delegation token.
    """

    user: str
    lifetime_ms: int | None = None
    is_token: bool = False


class Exchange(Protocol):
    """The messages of one authentication."""

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message; raise AuthenticationError if the authentication fails."""
        ...

    @property
    def identity(self) -> Identity | None:
        """The authenticated user; None until the exchange is complete."""
        ...

    @property
    def is_rejected(self) -> bool:
        """Whether the credentials are rejected, and the client must acknowledge this."""
        ...


ExchangeFactory: TypeAlias = Callable[[str], Exchange]
"""Creates the exchange of an enabled mechanism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSources:
    """The credentials of SCRAM that nodes have in the metadata, and the clock by which tokens expire."""

    passwords: ScramCredentials
    tokens: TokenCredentials
    clock: Clock


class PlainExchange:
    """An exchange of PLAIN, which has one message and an empty response."""

    __slots__ = ("_passwords", "identity", "is_rejected")

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.is_rejected = False
        self.identity: Identity | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Set the user; raise AuthenticationError if the credentials are not valid."""
        self.identity = Identity(authenticate_plain(message, self._passwords))
        return b""


class ScramExchange:
    """An exchange of SCRAM, which has two messages."""

    __slots__ = ("_clock", "_server", "is_rejected")

    def __init__(self, mechanism: ScramMechanism, nonce: str, sources: CredentialSources) -> None:
        self.is_rejected = False
        self._clock = sources.clock
        self._server = ScramServer(
            mechanism,
            nonce,
            lambda user: sources.passwords.find(user, mechanism),
            lambda token_id: sources.tokens.find(token_id, mechanism),
        )

    @property
    def identity(self) -> Identity | None:
        """The authenticated user; None until the exchange is complete."""
        server = self._server
        if server.state is not ScramState.COMPLETE:
            return None
        if server.token is None:
            return Identity(server.user)
        lifetime_ms = server.token.expires_ms - self._clock.wall_ms()
        return Identity(server.user, lifetime_ms=max(0, lifetime_ms), is_token=True)

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message; raise AuthenticationError if the authentication fails."""
        return self._server.evaluate(message)


class OAuthBearerExchange:
    """An exchange of OAUTHBEARER, which has one message, and a second one if the token is rejected."""

    __slots__ = ("_clock", "_server")

    def __init__(self, validate: TokenValidation, clock: Clock) -> None:
        self._clock = clock
        self._server = OAuthBearerServer(validate)

    @property
    def identity(self) -> Identity | None:
        """The authenticated user; None until the exchange is complete."""
        if self._server.state is not OAuthBearerState.COMPLETE:
            return None
        token = self._server.token
        return Identity(token.principal, lifetime_ms=max(0, token.expires_ms - self._clock.wall_ms()))

    @property
    def is_rejected(self) -> bool:
        """Whether the token is rejected, and the client must acknowledge this."""
        return self._server.state is OAuthBearerState.REJECTED

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message; raise AuthenticationError if the authentication fails."""
        return self._server.evaluate(message)


def exchange_factory(
    config: SaslListenerConfig,
    sources: CredentialSources,
    randomness: Randomness,
    validate_token: TokenValidation | None = None,
) -> ExchangeFactory:
    """Return the factory for the mechanisms of one listener; OAUTHBEARER needs `validate_token`."""

    def create_exchange(mechanism: str) -> Exchange:
        assert mechanism in config.mechanisms, f"{mechanism} is not enabled"
        if mechanism == PLAIN:
            return PlainExchange(config.plain_users)
        if mechanism == OAUTHBEARER:
            assert validate_token is not None
            return OAuthBearerExchange(validate_token, sources.clock)
        return ScramExchange(SCRAM_MECHANISMS[mechanism], random_text(randomness), sources)

    return create_exchange
