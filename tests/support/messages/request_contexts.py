"""Request contexts for tests of handlers."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.schema import ApiMessage

M = TypeVar("M", bound=ApiMessage)
R = TypeVar("R", bound=ApiMessage)


def immediate(response: R | asyncio.Future[R]) -> R:
    """Return the response of a handler that must not wait for it."""
    assert not isinstance(response, asyncio.Future), "the handler waits for its response"
    return response


def request_context(version: int = 0, *, listener: str = "PLAINTEXT", api_key: int = 0) -> RequestContext:
    return RequestContext(
        RequestHeader(api_key, version, 1, "test"),
        listener,
        "127.0.0.1:5000",
        "User:ANONYMOUS",
        1_000_000,
        ConnectedClient(),
    )


def over_the_wire(message: M, version: int) -> M:
    """Return `message` encoded and decoded in `version`: fields that the version lacks get defaults."""
    return decode(type(message), encode(message, version), version)
