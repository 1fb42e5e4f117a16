"""Limits the console to users that may see the cluster.

A policy of access gives each request the session of its user, or refuses it. `TokenAccess` admits the browser
of the user that has started `tidelog console`: the console has the rights of its connection, so that no other
user of the machine and no other web site may send requests to it. The command prints an address with a
random token. The first request exchanges the token for a cookie, which scripts cannot read, and which
requests of other sites do not contain. Requests with another Host header are refused, so that a site whose
name resolves to this machine gets nothing. `sign_in` has the policy for several users.

The content security policy allows only the files of the console itself. The contents of records, names and
headers are passed as JSON and shown as text. A script in them would not run even if it reached the page.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

from aiohttp import web
from aiohttp.typedefs import Middleware

from tidelog.base.randomness import Randomness
from tidelog.cli.console.session import ClusterSession

TOKEN_PARAMETER: Final = "token"
TOKEN_BITS: Final = 192
COOKIE: Final = "tidelog_console"
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# aiohttp has typed keys since 3.14, and warns about others.
_SESSION: Final[Any] = (
    web.RequestKey("tidelog_session", ClusterSession) if hasattr(web, "RequestKey") else "tidelog_session"
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AccessPolicy(Protocol):
    """Decides which requests are served, and with which session."""

    allows_writes: bool

    def middleware(self) -> Middleware:
        """Return the checks of each request."""

    def user_of(self, request: web.Request) -> str | None:
        """Return the user of an admitted request; None if the console has only one."""


def session_of(request: web.Request) -> ClusterSession:
    """Return the session of an admitted request."""
    return cast(ClusterSession, request[_SESSION])


def admit(request: web.Request, session: ClusterSession) -> None:
    """Give a request its session."""
    request[_SESSION] = session


def name_in_url(host: str) -> str:
    """Return `host` as browsers write it: an IPv6 address is compressed and in brackets."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    return f"[{address.compressed}]" if address.version == 6 else str(address)


def host_name(host: str) -> str:
    """Return the name in a Host header, with or without its port."""
    return (host.rsplit(":", 1)[0] if not host.endswith("]") else host).lower()


class TokenAccess:
    """The token of one console, and the host names by which it may be called."""

    def __init__(
        self,
        session: ClusterSession,
        hosts: frozenset[str],
        randomness: Randomness,
        *,
        allows_writes: bool = False,
    ) -> None:
        """Create a token; `randomness` must be that of the operating system."""
        self.allows_writes = allows_writes
        self.token = f"{randomness.getrandbits(TOKEN_BITS):x}"
        self._session = session
        self._hosts = hosts

    def user_of(self, request: web.Request) -> str | None:
        """Return None: the console has the rights of its connection."""
        return None

    def is_expected_host(self, host: str) -> bool:
        """Return whether a Host header names this console."""
        return host_name(host) in self._hosts

    def is_token(self, text: str | None) -> bool:
        """Compare in constant time."""
        return text is not None and is_equal(text, self.token)

    def middleware(self) -> Middleware:
        """Return the checks of each request."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self.is_expected_host(request.host):
                return refusal(421, "The Host header does not name this console.")
            if (refused := refused_method(request, allows_writes=self.allows_writes)) is not None:
                return refused
            if self.is_token(request.query.get(TOKEN_PARAMETER)):
                return self._sign_in(request)
            if not self.is_token(request.cookies.get(cookie_name(request))):
                return refusal(401, "Open the address that `tidelog console` has printed.")
            admit(request, self._session)
            return await handler(request)

        return check

    def _sign_in(self, request: web.Request) -> web.Response:
        """Exchange the token for the cookie, and remove it from the address."""
        # Not the path of the request: browsers take "//name" as another host.
        response = web.Response(status=303, headers={"Location": "/"})
        set_cookie(request, response, self.token)
        return response


def refused_method(request: web.Request, *, allows_writes: bool) -> web.Response | None:
    """Return the refusal of a request that may not change anything; None if it may be served.

    Only the console's own page may change something. A request of another site contains the Origin of that
    site, and cannot have this content type without a permission that the console never gives.
    """
    if request.method in ("GET", "HEAD"):
        return None
    if request.method != "POST" or not allows_writes:
        return refusal(405, "This console is read-only: it was started without writes.")
    if request.headers.get("Origin", own_origin(request)) != own_origin(request):
        return refusal(403, "Changes are accepted from the page of the console only.")
    if request.content_type != "application/json":
        return refusal(415, "The body of a change is JSON.")
    return None


def own_origin(request: web.Request) -> str:
    """Return the origin of the console's own page."""
    return f"{request.scheme}://{request.host}"


def is_equal(text: str, secret: str) -> bool:
    """Compare in constant time."""
    # A header may have bytes that are not UTF-8, which are surrogates in `text`.
    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of security to a response."""
    response.headers.update(HEADERS)


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie. It has the port, because the ports of a host share their cookies."""
    return f"{COOKIE}_{request.url.port}"


def set_cookie(request: web.Request, response: web.Response, value: str) -> None:
    """Set a cookie that scripts cannot read, and other sites do not send."""
    response.set_cookie(
        cookie_name(request),
        value,
        httponly=True,
        samesite="Strict",
        secure=request.secure,
        path="/",
    )


def refusal(status: int, text: str) -> web.Response:
    """Return a response that only has a reason."""
    return web.Response(status=status, text=f"{text}\n")
