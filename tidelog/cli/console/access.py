"""Limits the console to the browser of the user that has started it.

The console has the rights of its connection to the cluster. No other user of the machine and no other web
site may therefore send requests to it. `tidelog console` prints an address with a random token. The first
request exchanges the token for a cookie, which scripts cannot read, and which requests of other sites do not
contain. Requests with another Host header are refused, so that a site whose name resolves to this machine
gets nothing.

The content security policy allows only the files of the console itself. The contents of records, names and
headers are passed as JSON and shown as text. A script in them would not run even if it reached the page.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from tidelog.base.randomness import Randomness

TOKEN_PARAMETER: Final = "token"
TOKEN_BITS: Final = 192
COOKIE: Final = "tidelog_console"
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


def name_in_url(host: str) -> str:
    """Return `host` as browsers write it: an IPv6 address is compressed and in brackets."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    return f"[{address.compressed}]" if address.version == 6 else str(address)


class Access:
    """The token of one console, and the host names by which it may be called."""

    def __init__(self, hosts: frozenset[str], randomness: Randomness) -> None:
        """Create a token; `randomness` must be that of the operating system."""
        self.token = f"{randomness.getrandbits(TOKEN_BITS):x}"
        self._hosts = hosts

    def is_expected_host(self, host: str) -> bool:
        """Return whether a Host header, with or without its port, names this console."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return name.lower() in self._hosts

    def is_token(self, text: str | None) -> bool:
        """Compare in constant time."""
        # A header may have bytes that are not UTF-8, which are surrogates in `text`.
        return text is not None and hmac.compare_digest(text.encode(errors="replace"), self.token.encode())

    def middleware(self) -> Middleware:
        """Return the checks of each request, which also add the headers of each response."""

        @web.middleware
        async def check(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if not self.is_expected_host(request.host):
                return _refusal(421, "This console does not have this name.")
            if request.method not in ("GET", "HEAD"):
                return _refusal(405, "The console only reads.")
            if self.is_token(request.query.get(TOKEN_PARAMETER)):
                return self._sign_in(request)
            if not self.is_token(request.cookies.get(_cookie(request))):
                return _refusal(401, "Open the address that `tidelog console` has printed.")
            return await handler(request)

        return check

    def _sign_in(self, request: web.Request) -> web.Response:
        """Exchange the token for the cookie, and remove it from the address."""
        # Not the path of the request: browsers take "//name" as another host.
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(_cookie(request), self.token, httponly=True, samesite="Strict", path="/")
        return response


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of security to a response."""
    response.headers.update(HEADERS)


def _cookie(request: web.Request) -> str:
    """Return the name of the cookie. It has the port, because the ports of a host share their cookies."""
    return f"{COOKIE}_{request.url.port}"


def _refusal(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
