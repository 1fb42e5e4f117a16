"""The stages of a node: the order in which it starts, stops and is abandoned.

    start     each stage in order, when the objects that it needs are complete
    stop      the stages in reverse order: requests are completed, all data is made durable
    abandon   the stages in reverse order, as after a crash: nothing more is written
    undo      the stages that have started, in reverse order, because the start of a stage failed

A stage whose start failed is undone too, to release its resources. If an action fails while the node stops,
the remaining stages are abandoned: the logs are not marked as closed cleanly.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from tidelog.base.dataclass import dataclass

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 5.0

Action: TypeAlias = Callable[[], Awaitable[object] | object]
Actions: TypeAlias = Sequence[Action]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage by name, with the actions that start it and those that end it.

    `abandon` is None if the stage is abandoned as it is stopped, `undo` if it is undone as it is abandoned.
    """

    name: str
    start: Actions = ()
    stop: Actions = ()
    abandon: Actions | None = None
    undo: Actions | None = None

    @property
    def actions_to_abandon(self) -> Actions:
        """The actions of `abandon`, or of `stop`."""
        return self.stop if self.abandon is None else self.abandon

    @property
    def actions_to_undo(self) -> Actions:
        """The actions of `undo`, or those that abandon the stage."""
        return self.actions_to_abandon if self.undo is None else self.undo


class Stages:
    """The stages of one node that have started, in order."""

    def __init__(self) -> None:
        self.stop_timeout_s = STOP_TIMEOUT_S
        """The time that a stage may wait for clients and other nodes while the node stops."""
        self._started: list[Stage] = []
        self._is_ending = False

    @asynccontextmanager
    async def undo_on_failure(self) -> AsyncIterator[None]:
        """Undo the stages if the block fails, and raise its error."""
        try:
            yield
        except BaseException:
            await self._end(lambda stage: stage.actions_to_undo)
            raise

    async def start(self, stage: Stage) -> None:
        """Start `stage` and add it to the stages of the node. Errors: those of its actions."""
        self._started.append(stage)
        for action in stage.start:
            await _perform(action)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the stages in reverse order. Errors: the first failure, when all stages have ended."""
        if self._is_ending:
            return
        self._is_ending = True
        self.stop_timeout_s = timeout_s
        while self._started:
            stage = self._started.pop()
            try:
                for action in stage.stop:
                    await _perform(action)
            except BaseException:
                logger.error("Cannot stop stage %s of the node; abandoning the other stages", stage.name)
                self._started.append(stage)
                await self._end(lambda each: each.actions_to_abandon)
                raise

    async def abandon(self) -> None:
        """Abandon the stages in reverse order. Errors: the first failure, when all stages have ended."""
        if self._is_ending:
            return
        self._is_ending = True
        error = await self._end(lambda stage: stage.actions_to_abandon)
        if error is not None:
            raise error

    async def _end(self, actions_of: Callable[[Stage], Actions]) -> BaseException | None:
        """End every stage, even if some fail; return the first failure."""
        self._is_ending = True
        first_error: BaseException | None = None
        while self._started:
            stage = self._started.pop()
            for action in actions_of(stage):
                try:
                    await _perform(action)
                except BaseException as error:
                    level = logging.DEBUG if isinstance(error, asyncio.CancelledError) else logging.ERROR
                    logger.log(level, "Error while ending stage %s of the node", stage.name, exc_info=error)
                    first_error = first_error or error
        return first_error


async def _perform(action: Action) -> None:
    outcome = action()
    if inspect.isawaitable(outcome):
        await outcome
