"""Repeated authentication of a connection: requests are held meanwhile, and fail with it."""

from __future__ import annotations

import asyncio

from tests.support.waiting import eventually
from tidelog.clients.transport.reauthentication import Reauthentication
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import ApiKey

FAILURE = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "rejected")


class Scene:
    """Authentications that end when the test decides."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[int | KafkaError] = asyncio.Queue()
        self.events: list[str] = []
        self.again = Reauthentication(self.authenticate, lambda: self.events.append("completed"), self.fail)

    async def authenticate(self) -> int:
        self.events.append("authenticate")
        answer = await self.answers.get()
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def fail(self, error: KafkaError) -> None:
        self.events.append(error.code.name)
        self.again.close(error)

    async def begin(self) -> None:
        self.again.schedule(1)
        await eventually(lambda: self.events == ["authenticate"])

    def hold(self, name: str) -> None:
        self.again.hold(
            lambda: self.events.append(name), lambda error: self.events.append(f"{name} {error.code.name}")
        )


async def test_requests_are_held_during_re_authentication() -> None:
    scene = Scene()
    assert not scene.again.holds(ApiKey.PRODUCE)
    await scene.begin()
    assert scene.again.is_active and scene.again.holds(ApiKey.PRODUCE)
    assert not scene.again.holds(ApiKey.SASL_AUTHENTICATE)
    scene.hold("first")
    scene.hold("second")
    scene.answers.put_nowait(0)
    await eventually(lambda: not scene.again.is_active)
    assert scene.events == ["authenticate", "first", "second", "completed"]


async def test_re_authentication_is_repeated() -> None:
    scene = Scene()
    for lifetime_ms in (1, 1, 0):
        scene.answers.put_nowait(lifetime_ms)
    scene.again.schedule(1)
    await eventually(lambda: scene.events == ["authenticate", "completed"] * 3)
    assert not scene.again.is_active


async def test_a_failed_re_authentication_fails_the_requests() -> None:
    scene = Scene()
    await scene.begin()
    scene.hold("first")
    scene.answers.put_nowait(FAILURE)
    await eventually(lambda: len(scene.events) == 3)
    assert scene.events[1:] == ["SASL_AUTHENTICATION_FAILED", "first SASL_AUTHENTICATION_FAILED"]


async def test_a_closed_connection_ends_the_re_authentication() -> None:
    scene = Scene()
    await scene.begin()
    scene.hold("first")
    scene.again.close(KafkaError(ErrorCode.NETWORK_EXCEPTION, "closed"))
    assert scene.events == ["authenticate", "first NETWORK_EXCEPTION"]
    assert not scene.again.is_active
