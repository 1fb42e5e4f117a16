"""Repeated authentication of a connection: requests are held meanwhile, and fail with it."""

from __future__ import annotations

import asyncio

from tests.support.waiting import eventually
from tidelog.clients.transport.reauthentication import Reauthentication
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import ApiKey

FAILURE = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "rejected")


class ReauthenticationFixture:
    """Authentications that end when the test decides."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[int | KafkaError] = asyncio.Queue()
        self.events: list[str] = []
        self.reauthentication = Reauthentication(
            self.authenticate, lambda: self.events.append("completed"), self.fail
        )

    async def authenticate(self) -> int:
        self.events.append("authenticate")
        result = await self.results.get()
        if isinstance(result, KafkaError):
            raise result
        return result

    def fail(self, error: KafkaError) -> None:
        self.events.append(error.code.name)
        self.reauthentication.close(error)

    async def begin(self) -> None:
        self.reauthentication.schedule(1)
        await eventually(lambda: self.events == ["authenticate"])

    def hold(self, name: str) -> None:
        self.reauthentication.hold(
            lambda: self.events.append(name), lambda error: self.events.append(f"{name} {error.code.name}")
        )


async def test_requests_are_held_during_re_authentication() -> None:
    fixture = ReauthenticationFixture()
    assert not fixture.reauthentication.holds(ApiKey.PRODUCE)
    await fixture.begin()
    assert fixture.reauthentication.is_active and fixture.reauthentication.holds(ApiKey.PRODUCE)
    assert not fixture.reauthentication.holds(ApiKey.SASL_AUTHENTICATE)
    fixture.hold("first")
    fixture.hold("second")
    fixture.results.put_nowait(0)
    await eventually(lambda: not fixture.reauthentication.is_active)
    assert fixture.events == ["authenticate", "first", "second", "completed"]


async def test_re_authentication_is_repeated() -> None:
    fixture = ReauthenticationFixture()
    for lifetime_ms in (1, 1, 0):
        fixture.results.put_nowait(lifetime_ms)
    fixture.reauthentication.schedule(1)
    await eventually(lambda: fixture.events == ["authenticate", "completed"] * 3)
    assert not fixture.reauthentication.is_active


async def test_a_failed_re_authentication_fails_the_requests() -> None:
    fixture = ReauthenticationFixture()
    await fixture.begin()
    fixture.hold("first")
    fixture.results.put_nowait(FAILURE)
    await eventually(lambda: len(fixture.events) == 3)
    assert fixture.events[1:] == ["SASL_AUTHENTICATION_FAILED", "first SASL_AUTHENTICATION_FAILED"]


async def test_a_closed_connection_ends_the_re_authentication() -> None:
    fixture = ReauthenticationFixture()
    await fixture.begin()
    fixture.hold("first")
    fixture.reauthentication.close(KafkaError(ErrorCode.NETWORK_EXCEPTION, "closed"))
    assert fixture.events == ["authenticate", "first NETWORK_EXCEPTION"]
    assert not fixture.reauthentication.is_active
