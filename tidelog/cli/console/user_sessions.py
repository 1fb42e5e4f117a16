"""The sessions of the users of a console that have signed in.

Bounds: SESSIONS_MAX sessions. A user has at most SESSIONS_PER_USER_MAX, so that no user can take all
sessions. A further session of a user, and one that is opened while all sessions are used, ends the session
that this user has not used for the longest time. A user without a session is refused while all are used. A
session ends after SESSION_IDLE_MS without a request, after SESSION_MS, or when its credentials expire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness
from tidelog.cli.console.access import TOKEN_BITS
from tidelog.cli.console.credentials import Credentials
from tidelog.cli.console.session import ClusterSession

SESSIONS_MAX: Final = 64
SESSIONS_PER_USER_MAX: Final = 8
SESSION_IDLE_MS: Final = 30 * 60_000
SESSION_MS: Final = 12 * 3_600_000


@dataclass(slots=True)
class _SignedIn:
    """A user with a session; times are monotonic."""

    user: str
    session: ClusterSession
    ends_ms: int
    used_ms: int


class UserSessions:
    """Sessions by their identifiers, which are secrets of the browsers."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        """`randomness` must be that of the operating system."""
        self._clock = clock
        self._randomness = randomness
        self._sessions: dict[str, _SignedIn] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def user_of(self, identifier: str) -> str | None:
        """Return the user of a session; None if there is no such session."""
        signed_in = self._sessions.get(identifier)
        return None if signed_in is None else signed_in.user

    async def use(self, identifier: str) -> ClusterSession | None:
        """Return a session, which is used now; None if there is no such session, or if it has ended."""
        now_ms = self._clock.monotonic_ms()
        await self._end(self._expired(now_ms))
        signed_in = self._sessions.get(identifier)
        if signed_in is None:
            return None
        signed_in.used_ms = now_ms
        return signed_in.session

    async def add(self, credentials: Credentials, session: ClusterSession) -> str | None:
        """Add a session, and return its identifier; None if other users have all sessions."""
        now_ms, lifetime_ms = self._clock.monotonic_ms(), SESSION_MS
        await self._end(self._expired(now_ms))
        own = [name for name, each in self._sessions.items() if each.user == credentials.user]
        own.sort(key=lambda name: self._sessions[name].used_ms)
        surplus = max(len(own) + 1 - SESSIONS_PER_USER_MAX, len(self._sessions) + 1 - SESSIONS_MAX, 0)
        if surplus > len(own):
            return None
        identifier = f"{self._randomness.getrandbits(TOKEN_BITS):x}"
        if credentials.expires_ms is not None:
            lifetime_ms = min(lifetime_ms, credentials.expires_ms - self._clock.wall_ms())
        self._sessions[identifier] = _SignedIn(credentials.user, session, now_ms + lifetime_ms, now_ms)
        await self._end(own[:surplus])
        return identifier

    async def end(self, identifier: str) -> None:
        """End a session, if there is one."""
        await self._end([identifier])

    async def close(self) -> None:
        """End all sessions."""
        await self._end(self._sessions)

    def _expired(self, now_ms: int) -> list[str]:
        return [
            name
            for name, each in self._sessions.items()
            if now_ms - each.used_ms > SESSION_IDLE_MS or now_ms > each.ends_ms
        ]

    async def _end(self, identifiers: Iterable[str]) -> None:
        # Removed before the first wait: other requests end sessions, too.
        ended = [self._sessions.pop(name) for name in list(identifiers) if name in self._sessions]
        await asyncio.gather(*(each.session.close() for each in ended))
