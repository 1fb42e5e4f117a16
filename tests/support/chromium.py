"""A headless Chromium, controlled by its DevTools protocol, if one is installed."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.waiting import eventually

TIMEOUT_S = 30.0
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str:
    """Return the path of the browser; skip the test if none is installed."""
    path = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(PROGRAMS)}")
    return path


class Page:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        """Violations of the content security policy and exceptions of scripts."""

    async def call(self, method: str, **parameters: Any) -> Any:
        """Return the result of a method of the protocol."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=TIMEOUT_S)
            if message.get("method") == "Log.entryAdded":
                self.problems.append(message["params"]["entry"]["text"])
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(message["params"]["exceptionDetails"]))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    async def open(self, url: str, width: int, height: int = 1_000) -> None:
        """Open an address in a window of this size."""
        await self.call("Log.enable")
        await self.call("Runtime.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        # A page with another fragment only would not be loaded again.
        await self.call("Page.navigate", url="about:blank")
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    async def wait_for(self, expression: str) -> None:
        """Wait until the expression is true."""
        async with asyncio.timeout(TIMEOUT_S):
            while not await self.value(expression):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    async def screenshot(self) -> bytes:
        """Return a picture of the window as PNG."""
        picture = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(picture["data"])


@asynccontextmanager
async def running_browser(folder: Path) -> AsyncIterator[Page]:
    """Run a browser with a new profile in `folder`, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port_file = folder / "DevToolsActivePort"
        await eventually(lambda: _lines(port_file))
        port = _lines(port_file)[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as response:
                pages = [each for each in await response.json() if each["type"] == "page"]
            address = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        process.kill()
        await process.wait()


def _lines(path: Path) -> list[str]:
    """Return the lines of the file when it is complete, which has two lines then."""
    lines = path.read_text().split() if path.exists() else []
    return lines if len(lines) > 1 else []
