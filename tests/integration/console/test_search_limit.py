"""Searches of records that wait are bounded."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

from aiohttp import CookieJar
from aiohttp.test_utils import TestClient, TestServer

from tests.support.waiting import eventually
from tidelog.cli.console.access import TokenAccess
from tidelog.cli.console.server import SEARCHES_MAX, SEARCHES_WAITING_MAX, ConsoleServer
from tidelog.cli.console.session import ClusterSession
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import ErrorCode, KafkaError


class WaitingAdmin:
    """Describes no topic until `is_released`; then no topic exists."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_released = asyncio.Event()

    async def describe_topics(self, names: list[str]) -> dict[str, Any]:
        self.calls += 1
        await self.is_released.wait()
        return {name: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name) for name in names}


async def test_searches_over_the_limit_are_refused_until_others_are_complete() -> None:
    admin = WaitingAdmin()
    session = ClusterSession(cast(Admin, admin), "", {}, {})
    access = TokenAccess(session, frozenset({"127.0.0.1"}), random.Random(1))
    app = ConsoleServer(access).app
    path, count = "/api/topics/tides/records", SEARCHES_MAX + SEARCHES_WAITING_MAX
    async with TestClient(TestServer(app), cookie_jar=CookieJar(unsafe=True)) as client:
        await client.get(f"/?token={access.token}")
        accepted = [asyncio.create_task(client.get(path)) for _ in range(count)]
        await eventually(lambda: admin.calls == count)
        refused = await client.get(path)
        assert (refused.status, await refused.json()) == (
            503,
            {"error": f"allowed are {count} searches at a time"},
        )
        admin.is_released.set()
        assert [(await each).status for each in accepted] == [404] * count
        assert (await client.get(path)).status == 404
