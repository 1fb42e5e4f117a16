"""The target assignments that commands have requested, and that their callers compute in steps.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidelog.broker.coordinators.groups.epochs import GroupEpochs
from tidelog.protocol.steps import Steps


class GroupWithTarget(Protocol):
    """A group of any of the types that have target assignments."""

    epochs: GroupEpochs


GroupT = TypeVar("GroupT", bound=GroupWithTarget)
TargetsT = TypeVar("TargetsT")


class Computation(NamedTuple, Generic[GroupT, TargetsT]):
    """The steps that return the target of each member of `group` for the group epoch `epoch`."""

    group: GroupT
    epoch: int
    steps: Steps[TargetsT]


class Computations(Generic[GroupT, TargetsT]):
    """At most one computation for each group, from the request until its end.

    Bounds: one entry for each group whose target is computed in steps.
    """

    def __init__(self) -> None:
        self._computing: set[str] = set()
        self._requested: dict[str, Computation[GroupT, TargetsT]] = {}

    def has(self, group_id: str) -> bool:
        """Return whether a computation of the group has not ended."""
        return group_id in self._computing

    def request(self, group_id: str, computation: Computation[GroupT, TargetsT]) -> None:
        """Add the computation of a group that has none; the caller of the command takes and runs it."""
        self._computing.add(group_id)
        self._requested[group_id] = computation

    def take(self, find: Callable[[str], GroupT | None]) -> list[Computation[GroupT, TargetsT]]:
        """Return the requested computations, after the records of the commands were replayed.

        `find` returns the group with an id. A new group is in its table only since the replay, where it is
        another object. The computation ends if the group does not exist or has not reached the epoch: the
        records could not be appended, and another command may start the same epoch for other members.
        """
        requested, self._requested = self._requested, {}
        taken = []
        for group_id, computation in requested.items():
            group = find(group_id)
            if group is None or group.epochs.group_epoch < computation.epoch:
                self.end(group_id)
            else:
                taken.append(computation._replace(group=group))
        return taken

    def end(self, group_id: str) -> None:
        """Note the end of a computation. If it had no result, a later heartbeat requests another one."""
        self._computing.discard(group_id)
