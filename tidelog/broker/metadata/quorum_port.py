"""The port of the node's metadata to the quorum."""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.raft.steps import Callback
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.protocol.ids import LeaderEpoch


class Quorum(Protocol):
    """A replica of the metadata log: `tidelog.broker.raft.steps.MachineSteps`; tests replace it."""

    def schedule(self, callback: Callback) -> None:
        """Call `callback` when the log can be appended to."""

    def append(self, records: list[bytes], epoch: LeaderEpoch) -> RecordsAppended:
        """Append one batch, within a callback."""

    @property
    def kraft_version(self) -> int:
        """0: voters are static, 1: they are in the log."""

    def upgrade_refusal(self, epoch: LeaderEpoch) -> str | None:
        """Return why the voters cannot become dynamic now, None if they can."""

    def upgrade_voters(self, epoch: LeaderEpoch) -> RecordsAppended:
        """Append the static voters to the log, within a callback."""

    def resign(self) -> None:
        """Resign; this node or another may be elected in a later epoch."""
