"""The sessions of the users of a console: how they end, and how many a user has."""

from __future__ import annotations

import asyncio
from random import Random
from typing import cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.support.clocks.manual_clock import ManualClock
from tests.support.waiting import eventually
from tidelog.cli.console.credentials import Credentials, PasswordForm
from tidelog.cli.console.session import ClusterSession
from tidelog.cli.console.sign_in import SIGN_INS_MAX, SignInAccess
from tidelog.cli.console.user_sessions import (
    SESSION_IDLE_MS,
    SESSION_MS,
    SESSIONS_MAX,
    SESSIONS_PER_USER_MAX,
    UserSessions,
)


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

    async def open_session(credentials: Credentials) -> ClusterSession:
        sessions.append(SlowSession())
        return cast(ClusterSession, sessions[-1])

    clock = ManualClock()
    user_sessions = UserSessions(clock, Random(1))
    access = SignInAccess(PasswordForm("PLAIN"), open_session, user_sessions, allows_writes=False)
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


class QuickSession:
    """A session that ends at once."""

    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


def credentials(user: str, expires_ms: int | None = None) -> Credentials:
    return Credentials(user=user, client_options={}, expires_ms=expires_ms)


async def added(sessions: UserSessions, user: str, expires_ms: int | None = None) -> tuple[str, QuickSession]:
    """Add a session; return its identifier and it."""
    session = QuickSession()
    identifier = await sessions.add(credentials(user, expires_ms), cast(ClusterSession, session))
    assert identifier is not None
    return identifier, session


async def test_a_user_with_all_sessions_of_a_user_loses_the_one_that_was_not_used_for_the_longest_time() -> (
    None
):
    clock = ManualClock()
    sessions = UserSessions(clock, Random(1))
    _, other = await added(sessions, "bob")
    own = []
    for _ in range(SESSIONS_PER_USER_MAX):
        clock.advance_ns(1_000_000)
        own.append(await added(sessions, "alice"))
    clock.advance_ns(1_000_000)
    assert cast(object, await sessions.use(own[0][0])) is own[0][1]
    for count in (1, 2):
        clock.advance_ns(1_000_000)
        await added(sessions, "alice")
        assert [session.is_closed for _, session in own].index(True) == 1
        assert sum(session.is_closed for _, session in own) == count
    assert len(sessions) == SESSIONS_PER_USER_MAX + 1
    assert not other.is_closed


async def test_while_all_sessions_are_used_a_further_one_ends_the_oldest_of_its_user_or_is_refused() -> None:
    clock = ManualClock()
    sessions = UserSessions(clock, Random(1))
    open_sessions = [(await added(sessions, f"user {number}"))[1] for number in range(SESSIONS_MAX)]
    await added(sessions, "user 5")
    assert [session.is_closed for session in open_sessions].index(True) == 5
    refused = cast(ClusterSession, QuickSession())
    assert await sessions.add(credentials("new"), refused) is None
    assert len(sessions) == SESSIONS_MAX
    clock.advance_ns((SESSION_IDLE_MS + 1) * 1_000_000)
    assert await sessions.add(credentials("new"), refused) is not None
    assert len(sessions) == 1


async def test_a_session_ends_when_its_credentials_expire() -> None:
    clock = ManualClock()
    sessions = UserSessions(clock, Random(1))
    token_session, _ = await added(sessions, "alice", expires_ms=clock.wall_ms() + 60_000)
    password_session, _ = await added(sessions, "bob")
    clock.advance_ns(60_000_000_000)
    assert await sessions.use(token_session) is not None
    clock.advance_ns(1_000_000)
    assert await sessions.use(token_session) is None
    assert sessions.user_of(token_session) is None
    for _ in range(SESSION_MS // SESSION_IDLE_MS):
        assert await sessions.use(password_session) is not None
        clock.advance_ns(SESSION_IDLE_MS * 1_000_000)
    assert await sessions.use(password_session) is None


async def test_clients_that_do_not_send_their_credentials_do_not_keep_users_from_signing_in() -> None:
    async def open_session(credentials: Credentials) -> ClusterSession:
        return cast(ClusterSession, QuickSession())

    sessions = UserSessions(ManualClock(), Random(1))
    access = SignInAccess(PasswordForm("PLAIN"), open_session, sessions, allows_writes=False)
    async with TestClient(TestServer(web.Application(middlewares=[access.middleware()]))) as browser:
        writers = []
        for _ in range(2 * SIGN_INS_MAX):
            reader, writer = await asyncio.open_connection("127.0.0.1", browser.port)
            writer.write(
                b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"
            )
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n", "the console reads the body"
            writers.append(writer)
        response = await browser.post("/sign-in", json={"user": "alice", "password": "secret"})
        assert response.status == 204
        for writer in writers:
            writer.close()


async def test_deeply_nested_credentials_are_refused_like_other_malformed_ones() -> None:
    async def open_session(credentials: Credentials) -> ClusterSession:
        raise AssertionError("there are no credentials")

    sessions = UserSessions(ManualClock(), Random(1))
    access = SignInAccess(PasswordForm("PLAIN"), open_session, sessions, allows_writes=False)
    async with TestClient(TestServer(web.Application(middlewares=[access.middleware()]))) as browser:
        headers = {"Content-Type": "application/json"}
        for body in ("[" * 30_000, "no JSON"):
            assert (await browser.post("/sign-in", data=body, headers=headers)).status == 400
