"""A browser with the cookie of a console."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL


class Browser:
    """Requests with the cookie of a console, or without one."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self.session = session
        self.url = URL(address).with_query(None)

    async def get(self, path: str) -> tuple[int, Any]:
        """Return status and document of a response."""
        async with self.session.get(URL(f"{self.url}api/{path}", encoded=True)) as response:
            return response.status, json.loads(await response.text())

    async def post(self, path: str, document: Any, **options: Any) -> tuple[int, Any]:
        """Request a change; return status and document of the response."""
        url = URL(f"{self.url}api/{path}", encoded=True)
        async with self.session.post(url, json=document, **options) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.content_type == "application/json" else text


@asynccontextmanager
async def signed_in_browser(address: str) -> AsyncIterator[Browser]:
    """Open the printed address, and keep its cookie."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(address) as response:
            assert response.status == 200
        yield Browser(session, address)
