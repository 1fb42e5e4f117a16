"""The client of one connection: its principal, its software, and how it has authenticated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

ANONYMOUS: Final = "User:ANONYMOUS"


class Session(Protocol):
    """The authentication of a connection, which belongs to the handler of its requests.

    Until the monotonic time `counts_until_ms`, the connection counts for max.connections.per.ip, even if it
    ends earlier.
    """

    counts_until_ms: int


class ConnectedClient:
    """The client of one connection.

    `software` is name and version (KIP-511), for log lines; "" until the client sends ApiVersions version 3
    or later. `session` is None until the client begins to authenticate by SASL.
    """

    __slots__ = ("_on_disconnected", "is_token_authenticated", "principal", "session", "software")

    def __init__(self, principal: str = ANONYMOUS, *, is_token_authenticated: bool = False) -> None:
        """`is_token_authenticated`: the client has authenticated with a delegation token (KIP-48)."""
        self.principal = principal
        self.is_token_authenticated = is_token_authenticated
        self.session: Session | None = None
        self.software = ""
        self._on_disconnected: tuple[Callable[[], None], ...] = ()

    def when_disconnected(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection has ended."""
        self._on_disconnected = (*self._on_disconnected, callback)

    def on_disconnected(self) -> None:
        """Notify the parts that need to know that the connection has ended."""
        callbacks, self._on_disconnected = self._on_disconnected, ()
        for callback in callbacks:
            callback()

    def begin_session(self, session: Session) -> None:
        """Keep the authentication that the client has begun."""
        self.session = session

    def on_authenticated(self, principal: str, *, is_token_authenticated: bool = False) -> None:
        """Serve `principal`, as which the client has authenticated."""
        self.principal = principal
        self.is_token_authenticated = is_token_authenticated

    def on_software_reported(self, software: str) -> None:
        """Keep the name and version of the client's software."""
        self.software = software
