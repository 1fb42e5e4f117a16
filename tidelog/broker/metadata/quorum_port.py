"""The port of the node's metadata to the quorum."""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.raft.steps import Callback
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.protocol.ids import LeaderEpoch


class Quorum(Protocol):
    """A replica of the metadata log: `tidelog.broker.raft.steps.MachineSteps`; tests replace it."""

    def schedule(self, callback: Callback) -> None:
        """Call `callback` when no flush of the log is in progress; it may append."""

    def append(self, records: list[bytes], epoch: LeaderEpoch) -> RecordsAppended:
        """Append one batch; only within a callback. Errors: those of `MachineSteps.append`."""

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 0 if the voters are static, 1 if they are stored in the log."""

    def upgrade_rejection(self, epoch: LeaderEpoch) -> str | None:
        """Return why the voters cannot become dynamic now, None if they can."""

    def upgrade_voters(self, epoch: LeaderEpoch) -> RecordsAppended:
        """Append the static voters to the log, within a callback."""

    def resign(self) -> None:
        """Resign; this node or another may be elected in a later epoch."""
