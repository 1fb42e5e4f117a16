"""Releases the elements of large messages in slices: to release 100,000 objects at once takes 10 ms.

The elements of long arrays are kept until the request, or the response, is unused. Then a few of them are
released in each step. Elements that are still used elsewhere stay there.

Bounds: the elements of the requests that are being handled, for a few milliseconds longer.
I/O: none; steps run in slices of the event loop.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import Any

from tidelog.broker.network.request import Request
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import long_arrays
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import LONG_ARRAY, release_in_steps


class ElementRelease:
    """Releases the elements of long arrays when a request or a response is unused."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices

    def after_request(self, request: Request, message: ApiMessage) -> None:
        """Release the elements of `message` when `request` is no longer used, with or without a response."""
        arrays = long_arrays(message, request.header.api_version, LONG_ARRAY)
        if arrays:
            loop = asyncio.get_running_loop()
            weakref.finalize(request, self._release_soon, loop, arrays).atexit = False

    def after_response(self, response: ApiMessage, version: int) -> None:
        """Release the elements of a response that has been encoded, in later iterations of the event loop."""
        arrays = long_arrays(response, version, LONG_ARRAY)
        if arrays:
            self._release_soon(asyncio.get_running_loop(), arrays)

    def _release_soon(self, loop: asyncio.AbstractEventLoop, arrays: list[list[Any]]) -> None:
        """Begin when the callers, which refer to the message, have returned."""
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(self._release, arrays)

    def _release(self, arrays: list[list[Any]]) -> None:
        self._slices.start(release_in_steps(*arrays), lambda _: None, lambda _: None)
