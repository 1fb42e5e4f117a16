"""Requests to the console that are not valid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Middleware

from tidelog.cli.console.access import Handler, admit
from tidelog.cli.console.server import EVENT_STREAMS_PER_USER_MAX, ConsoleServer
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


class OverviewSession:
    """A session that has an overview without a cluster."""

    async def shared_overview(self) -> str:
        return "{}"


class AdmitUsers:
    """Admits all requests; the header `User` has their user."""

    allows_writes = False

    def middleware(self) -> Middleware:
        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            admit(request, cast(ClusterSession, OverviewSession()))
            return await handler(request)

        return check

    def user_of(self, request: web.Request) -> str | None:
        return request.headers["User"]


async def test_one_user_cannot_take_all_streams_of_events() -> None:
    async with TestClient(TestServer(ConsoleServer(AdmitUsers()).app)) as browser:

        async def status(user: str) -> int:
            return (await browser.get("/api/events", headers={"User": user})).status

        own = [await status("alice") for _ in range(EVENT_STREAMS_PER_USER_MAX)]
        assert own == [200] * EVENT_STREAMS_PER_USER_MAX
        assert await status("alice") == 503
        assert await status("bob") == 200


async def test_a_deeply_nested_change_is_refused_like_other_malformed_ones() -> None:
    app = ConsoleServer(AdmitEverything()).app
    async with TestClient(TestServer(app)) as browser:
        for body in ("[" * 100_000, "no JSON", "[]"):
            assert (await browser.post("/api/topics", data=body)).status == 400
