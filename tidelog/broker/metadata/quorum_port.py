"""What the node's metadata needs of the quorum: its driver, or something in its place."""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.raft.driver import Turn
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.protocol.ids import LeaderEpoch


class Quorum(Protocol):
    """A replica of the metadata log; `tidelog.broker.raft.driver.RaftDriver` is one."""

    def in_turn(self, turn: Turn) -> None:
        """Have `turn` called when the log may be appended to."""

    def append_now(self, records: list[bytes], epoch: LeaderEpoch) -> RecordsAppended:
        """Append one batch, within a turn."""

    @property
    def kraft_version(self) -> int:
        """0: voters are static, 1: they stand in the log."""

    def upgrade_refusal(self, epoch: LeaderEpoch) -> str | None:
        """Why the voters cannot become dynamic now; None when they can."""

    def upgrade_voters_now(self, epoch: LeaderEpoch) -> RecordsAppended:
        """Write the voters into the log, within a turn."""

    def give_up(self) -> None:
        """Lead no more; others, or this node in another epoch, may."""

    def fail(self, error: BaseException) -> None:
        """End the node's part in the quorum."""
