"""Computes the target assignments of large groups in slices, each in a task of its own.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.members.computations import Computation, GroupWithTarget
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.shard import Shard, ShardState
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.scheduling.slices import Slices

GroupT = TypeVar("GroupT", bound=GroupWithTarget)
TargetsT = TypeVar("TargetsT")


class ComputingCoordinator(Protocol[GroupT, TargetsT]):
    """The coordinator of one type of groups."""

    def take_computations(self) -> Collection[Computation[GroupT, TargetsT]]:
        """Return the computations that commands have requested."""
        ...

    def on_computed(
        self, computation: Computation[GroupT, TargetsT], computed: TargetsT, now: Moment, /
    ) -> Writes:
        """Return the records of a target."""
        ...

    def on_not_computed(self, computation: Computation[GroupT, TargetsT], /) -> None:
        """Note that a target was not computed."""


class TargetComputations:
    """Starts the computations that commands have requested."""

    def __init__(self, shards: Shards[GroupCoordinator], slices: Slices) -> None:
        self._shards = shards
        self._slices = slices

    def start(
        self,
        shard: Shard[GroupCoordinator],
        groups_of: Callable[[GroupCoordinator], ComputingCoordinator[GroupT, TargetsT]],
    ) -> list[asyncio.Future[None]]:
        """Start the computations that commands have requested. Return futures that complete at their ends."""
        ends = []
        for computation in groups_of(shard.coordinator).take_computations():
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._shards.spawn(self._compute(shard, groups_of, computation, end))
            ends.append(end)
        return ends

    async def _compute(
        self,
        shard: Shard[GroupCoordinator],
        groups_of: Callable[[GroupCoordinator], ComputingCoordinator[GroupT, TargetsT]],
        computation: Computation[GroupT, TargetsT],
        end: asyncio.Future[None],
    ) -> None:
        try:
            computed = await self._slices.complete(computation.steps)
        except Exception:
            groups_of(shard.coordinator).on_not_computed(computation)
            raise
        else:
            if shard.state is ShardState.ACTIVE:
                shard.perform(groups_of(shard.coordinator).on_computed(computation, computed, shard.now()))
        finally:
            if not end.done():
                end.set_result(None)
