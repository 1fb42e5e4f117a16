"""Access for several users, each with the credentials of Kafka's listeners (`tidelog console --sign-in`).

The user name and the password are those of SASL. The broker verifies them when the console opens a
connection for the user, and its access control entries apply to this connection. A cluster without SASL has
no users: all requests then have the same session, with the rights of a client that has not authenticated.

Bounds: SESSIONS_MAX sessions, and SIGN_INS_MAX attempts at a time; further ones get status 503. A session
ends after SESSION_IDLE_MS without a request, or after SESSION_MS.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.cli.console.access import (
    LOOPBACK_NAMES,
    TOKEN_BITS,
    Handler,
    admit,
    cookie_name,
    host_name,
    own_origin,
    refusal,
    refused_method,
    set_cookie,
)
from tidelog.cli.console.session import ClusterSession, error_text
from tidelog.protocol.errors import ErrorCode, KafkaError

SESSIONS_MAX: Final = 64
SIGN_INS_MAX: Final = 4
SESSION_IDLE_MS: Final = 30 * 60_000
SESSION_MS: Final = 12 * 3_600_000
CREDENTIALS_BYTES_MAX: Final = 4_096
WRONG_CREDENTIALS: Final = "The user name or the password is wrong."
SIGN_IN_PATH: Final = "/sign-in"
SIGN_OUT_PATH: Final = "/sign-out"
_SIGN_IN_PAGE: Final = Path(__file__).parent / "static" / "sign_in.html"

SessionOpener = Callable[[str, str], Awaitable[ClusterSession]]


@dataclass(slots=True)
class _SignedIn:
    """A user with a session."""

    user: str
    session: ClusterSession
    since_ms: int
    used_ms: int


class SignInAccess:
    """The sessions of users. Sessions are opened by `open_session`."""

    def __init__(
        self, open_session: SessionOpener, clock: Clock, randomness: Randomness, *, allows_writes: bool
    ) -> None:
        """`randomness` must be that of the operating system."""
        self.allows_writes = allows_writes
        self._open_session = open_session
        self._clock = clock
        self._randomness = randomness
        self._sessions: dict[str, _SignedIn] = {}
        self._attempts = 0

    def user_of(self, request: web.Request) -> str | None:
        """Return the name of the user."""
        signed_in = self._sessions.get(request.cookies.get(cookie_name(request), ""))
        return None if signed_in is None else signed_in.user

    def middleware(self) -> Middleware:
        """Return the checks of each request."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in (SIGN_IN_PATH, SIGN_OUT_PATH):
                return await self._change_session(request)
            if request.path.startswith("/static/") and request.method in ("GET", "HEAD"):
                return await handler(request)
            session = await self._session(request)
            if session is None:
                if request.path == "/" and request.method == "GET":
                    return web.FileResponse(_SIGN_IN_PAGE)
                return refusal(401, "Sign in first.")
            if (refused := refused_method(request, allows_writes=self.allows_writes)) is not None:
                return refused
            admit(request, session)
            return await handler(request)

        return check

    async def close(self) -> None:
        """End all sessions."""
        ended = [self._sessions.pop(identifier) for identifier in list(self._sessions)]
        await asyncio.gather(*(each.session.close() for each in ended))

    async def _session(self, request: web.Request) -> ClusterSession | None:
        now_ms = self._clock.monotonic_ms()
        ended = [
            identifier
            for identifier, each in self._sessions.items()
            if now_ms - each.used_ms > SESSION_IDLE_MS or now_ms - each.since_ms > SESSION_MS
        ]
        # Removed before the first wait: other requests end sessions, too.
        for each in [self._sessions.pop(identifier) for identifier in ended]:
            await each.session.close()
        signed_in = self._sessions.get(request.cookies.get(cookie_name(request), ""))
        if signed_in is None:
            return None
        signed_in.used_ms = now_ms
        return signed_in.session

    async def _change_session(self, request: web.Request) -> web.Response:
        """Sign a user in or out."""
        if (refused := refused_method(request, allows_writes=True)) is not None:
            return refused
        if request.method != "POST":
            return refusal(405, "POST is allowed.")
        if request.path == SIGN_OUT_PATH:
            ended = self._sessions.pop(request.cookies.get(cookie_name(request), ""), None)
            if ended is not None:
                await ended.session.close()
            response = web.Response(status=204)
            response.del_cookie(cookie_name(request), path="/")
            return response
        if self._attempts >= SIGN_INS_MAX or len(self._sessions) + self._attempts >= SESSIONS_MAX:
            return _error(503, "Too many users sign in at the same time, or have signed in.")
        self._attempts += 1
        try:
            return await self._sign_in(request)
        finally:
            self._attempts -= 1

    async def _sign_in(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            document = json.loads(body)
            user, password = document["user"], document["password"]
            if len(body) > CREDENTIALS_BYTES_MAX or not (isinstance(user, str) and isinstance(password, str)):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            return _error(400, "Allowed is an object with the texts user and password.")
        if not user or not password:
            return _error(401, WRONG_CREDENTIALS)
        try:
            session = await self._open_session(user, password)
        except KafkaError as error:
            if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                return _error(401, WRONG_CREDENTIALS)
            return _error(502, error_text(error))
        identifier = f"{self._randomness.getrandbits(TOKEN_BITS):x}"
        now_ms = self._clock.monotonic_ms()
        self._sessions[identifier] = _SignedIn(user, session, now_ms, now_ms)
        response = web.Response(status=204)
        set_cookie(request, response, identifier)
        return response


class OpenAccess:
    """Access to a cluster without SASL: all requests have one session, as all clients have the same rights.

    Other web sites must not read through the browsers of users. The console is therefore called by an
    address or by one of `hosts`: a foreign name that resolves to the console is refused.
    """

    def __init__(self, session: ClusterSession, hosts: frozenset[str], *, allows_writes: bool) -> None:
        self.allows_writes = allows_writes
        self._session = session
        self._hosts = hosts | LOOPBACK_NAMES

    def user_of(self, request: web.Request) -> str | None:
        """Return None: there are no users."""
        return None

    def middleware(self) -> Middleware:
        """Return the checks of each request."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self._is_expected(host_name(request.host)):
                return refusal(421, "This console does not have this name.")
            if request.headers.get("Origin", own_origin(request)) != own_origin(request):
                return refusal(403, "Requests are accepted from the page of the console only.")
            if (refused := refused_method(request, allows_writes=self.allows_writes)) is not None:
                return refused
            admit(request, self._session)
            return await handler(request)

        return check

    def _is_expected(self, name: str) -> bool:
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name in self._hosts
        return True


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)
