"""Access for several users, each with the credentials of Kafka's listeners (`tidelog console --sign-in`).

The credentials are those of SASL: a user name and a password, or an access token. The broker verifies them
when the console opens a connection for the user, and its access control entries apply to this connection. A
cluster without SASL has no users: all requests then have the same session, with the rights of a client that
has not authenticated.

Bounds: those of `user_sessions`, and SIGN_INS_MAX attempts at a time; further ones get status 503. An attempt
begins when its credentials have been received.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from tidelog.cli.console.access import (
    LOOPBACK_NAMES,
    Handler,
    admit,
    cookie_name,
    host_name,
    own_origin,
    refusal,
    refused_method,
    set_cookie,
)
from tidelog.cli.console.credentials import Credentials, CredentialsError, SignInForm
from tidelog.cli.console.session import ClusterSession, error_text
from tidelog.cli.console.user_sessions import SESSIONS_MAX, UserSessions
from tidelog.protocol.errors import ErrorCode, KafkaError

SIGN_INS_MAX: Final = 4
CREDENTIALS_BYTES_MAX: Final = 32_768
SIGN_IN_PATH: Final = "/sign-in"
SIGN_OUT_PATH: Final = "/sign-out"

SessionOpener = Callable[[Credentials], Awaitable[ClusterSession]]


class SignInAccess:
    """Signs users in with the credentials of `form`. Sessions are opened by `open_session`."""

    def __init__(
        self, form: SignInForm, open_session: SessionOpener, sessions: UserSessions, *, allows_writes: bool
    ) -> None:
        self.allows_writes = allows_writes
        self._form = form
        self._open_session = open_session
        self._sessions = sessions
        self._attempts = 0

    def user_of(self, request: web.Request) -> str | None:
        """Return the name of the user."""
        return self._sessions.user_of(_identifier(request))

    def middleware(self) -> Middleware:
        """Return the checks of each request."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in (SIGN_IN_PATH, SIGN_OUT_PATH):
                return await self._change_session(request)
            if request.path.startswith("/static/") and request.method in ("GET", "HEAD"):
                return await handler(request)
            session = await self._sessions.use(_identifier(request))
            if session is None:
                if request.path == "/" and request.method == "GET":
                    return web.FileResponse(self._form.page)
                return refusal(401, "Sign in first.")
            if (refused := refused_method(request, allows_writes=self.allows_writes)) is not None:
                return refused
            admit(request, session)
            return await handler(request)

        return check

    async def _change_session(self, request: web.Request) -> web.Response:
        """Sign a user in or out."""
        if (refused := refused_method(request, allows_writes=True)) is not None:
            return refused
        if request.method != "POST":
            return refusal(405, "POST is allowed.")
        if request.path == SIGN_OUT_PATH:
            await self._sessions.end(_identifier(request))
            response = web.Response(status=204)
            response.del_cookie(cookie_name(request), path="/")
            return response
        body = await request.read()
        if self._attempts >= SIGN_INS_MAX:
            return _error(503, f"{SIGN_INS_MAX} users sign in at the moment. Try again in a few seconds.")
        self._attempts += 1
        try:
            return await self._sign_in(request, body)
        finally:
            self._attempts -= 1

    async def _sign_in(self, request: web.Request, body: bytes) -> web.Response:
        try:
            document = json.loads(body) if len(body) <= CREDENTIALS_BYTES_MAX else None
        except (ValueError, RecursionError):
            document = None
        try:
            credentials = self._form.read(document if isinstance(document, dict) else {})
            session = await self._open_session(credentials)
        except CredentialsError as error:
            return _error(error.status, str(error))
        except KafkaError as error:
            if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                return _error(401, self._form.refusal)
            return _error(502, error_text(error))
        identifier = await self._sessions.add(credentials, session)
        if identifier is None:
            await session.close()
            return _error(503, f"All {SESSIONS_MAX} sessions are used. Try again when a user has signed out.")
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
                return refusal(421, "The Host header does not name this console.")
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


def _identifier(request: web.Request) -> str:
    """Return the identifier of the session in the cookie of a browser; empty without one."""
    return request.cookies.get(cookie_name(request), "")
