"""Requests to the console that are not valid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Middleware

from tidelog.cli.console.access import Handler, admit
from tidelog.cli.console.server import ConsoleServer
from tidelog.cli.console.session import ClusterSession


class AdmitEverything:
    """Admits all requests; none of them reaches the cluster."""

    allows_writes = True

    def middleware(self) -> Middleware:
        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            admit(request, cast(ClusterSession, SimpleNamespace(admin=None)))
            return await handler(request)

        return check

    def user_of(self, request: web.Request) -> str | None:
        """Return None: there are no users."""
        return None


async def test_a_deeply_nested_change_is_refused_like_other_malformed_ones() -> None:
    app = ConsoleServer(AdmitEverything()).app
    async with TestClient(TestServer(app)) as browser:
        for body in ("[" * 100_000, "no JSON", "[]"):
            assert (await browser.post("/api/topics", data=body)).status == 400
