"""The server's side of the exchange of each supported SASL mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from tidelog.base.randomness import Randomness
from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.security.plain import PLAIN, authenticate_plain
from tidelog.security.scram.credentials import SCRAM_MECHANISMS, ScramMechanism, random_text
from tidelog.security.scram.server import ScramServer, ScramState


class Exchange(Protocol):
    """The messages of one authentication."""

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message; raise AuthenticationError if the authentication fails."""
        ...

    @property
    def user(self) -> str | None:
        """The authenticated user; None until the exchange is complete."""
        ...


ExchangeFactory: TypeAlias = Callable[[str], Exchange]
"""Creates the exchange of an enabled mechanism."""


class PlainExchange:
    """An exchange of PLAIN, which has one message and an empty response."""

    __slots__ = ("_passwords", "user")

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Set the user; raise AuthenticationError if the credentials are not valid."""
        self.user = authenticate_plain(message, self._passwords)
        return b""


class ScramExchange:
    """An exchange of SCRAM, which has two messages."""

    __slots__ = ("_server",)

    def __init__(self, mechanism: ScramMechanism, nonce: str, credentials: ScramCredentials) -> None:
        self._server = ScramServer(mechanism, nonce, lambda user: credentials.find(user, mechanism))

    @property
    def user(self) -> str | None:
        """The authenticated user; None until the exchange is complete."""
        return self._server.user if self._server.state is ScramState.COMPLETE else None

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message; raise AuthenticationError if the authentication fails."""
        return self._server.evaluate(message)


def exchange_factory(
    config: SaslListenerConfig, credentials: ScramCredentials, randomness: Randomness
) -> ExchangeFactory:
    """Return the factory for the mechanisms of one listener."""

    def create(mechanism: str) -> Exchange:
        assert mechanism in config.mechanisms, f"{mechanism} is not enabled"
        if mechanism == PLAIN:
            return PlainExchange(config.plain_users)
        return ScramExchange(SCRAM_MECHANISMS[mechanism], random_text(randomness), credentials)

    return create
