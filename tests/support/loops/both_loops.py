"""Run an asynchronous test on both event loops that the broker supports."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

FACTORIES: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
DEADLINE_S = 60.0


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return a synchronous test that runs `test` once per loop; its other arguments stay fixtures."""

    @functools.wraps(test)
    def run(*, loop_name: str, **fixtures: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(DEADLINE_S):
                await test(**fixtures)

        with asyncio.Runner(loop_factory=FACTORIES[loop_name]) as runner:
            runner.run(main())

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(test).parameters.values()
    ]
    loop = inspect.Parameter("loop_name", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*own, loop])  # type: ignore[attr-defined]
    marked: Callable[..., None] = pytest.mark.parametrize("loop_name", list(FACTORIES))(run)
    return marked
