"""The sessions of the users of a console: how they end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.support.clocks.manual_clock import ManualClock
from tests.support.waiting import eventually
from tidelog.cli.console.session import ClusterSession
from tidelog.cli.console.sign_in import SESSION_IDLE_MS, SignInAccess


class SlowSession:
    """A session whose end takes as long as a test wants."""

    def __init__(self) -> None:
        self.may_close = asyncio.Event()
        self.close_count = 0

    async def close(self) -> None:
        self.close_count += 1
        await self.may_close.wait()


async def test_expired_sessions_end_once_when_several_requests_arrive_at_the_same_time() -> None:
    sessions: list[SlowSession] = []

    async def open_session(user: str, password: str) -> ClusterSession:
        sessions.append(SlowSession())
        return cast(ClusterSession, sessions[-1])

    clock = ManualClock()
    access = SignInAccess(open_session, clock, Random(1), allows_writes=False)
    async with TestClient(TestServer(web.Application(middlewares=[access.middleware()]))) as browser:
        for _ in range(3):
            response = await browser.post("/sign-in", json={"user": "alice", "password": "secret"})
            assert response.status == 204
        browser.session.cookie_jar.clear()
        clock.advance_ns((SESSION_IDLE_MS + 1) * 1_000_000)
        first = asyncio.ensure_future(browser.get("/api/topics"))
        await eventually(lambda: sessions[0].close_count == 1)
        second = asyncio.ensure_future(browser.get("/api/topics"))
        await eventually(lambda: second.done() or sessions[1].close_count == 1)
        for session in sessions:
            session.may_close.set()
        assert [(await each).status for each in (first, second)] == [401, 401]
    assert [session.close_count for session in sessions] == [1, 1, 1]
