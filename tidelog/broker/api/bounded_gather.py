"""Many calls of one request, not all at once: the event loop serves other requests in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

CALLS_AT_ONCE: Final = 100
"""Each call runs for some 20 us before it waits, so that these take about 2 ms of the event loop."""


async def bounded_gather(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of `calls` in their order; CALLS_AT_ONCE of them wait at the same time.

    A call is created when its turn comes, if `calls` is a generator. The first error of a call is raised.
    """
    remaining = iter(calls)
    results: list[T] = []
    while group := tuple(islice(remaining, CALLS_AT_ONCE)):
        results += await asyncio.gather(*group)
    return results
