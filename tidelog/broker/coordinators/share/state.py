"""The state of one share partition, and a change to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.share.persister import UNINITIALIZED_START_OFFSET, ShareStateBatch
from tidelog.broker.coordinators.share.state_batches import add_batches
from tidelog.protocol.ids import LeaderEpoch, Offset

UNCHANGED: Final = -1
"""The start offset or leader epoch of a change that keeps the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """A change of a state since the snapshot with `snapshot_epoch`; see `UNCHANGED`."""

    snapshot_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    batches: tuple[ShareStateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """The state of a share partition, as a snapshot has it.

    A regular snapshot sets both timestamps. A snapshot that is written only because the share partition had
    no updates keeps `create_wall_ms`.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    create_wall_ms: int
    write_wall_ms: int
    batches: tuple[ShareStateBatch, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """Whether the latest snapshot was written because the share partition had no updates."""
        return self.create_wall_ms != self.write_wall_ms

    def updated(self, update: ShareUpdate) -> ShareState:
        """Return the state after `update`."""
        start_offset = self.start_offset if update.start_offset == UNCHANGED else update.start_offset
        return replace(
            self,
            leader_epoch=self.leader_epoch if update.leader_epoch == UNCHANGED else update.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=add_batches(self.batches, update.batches, first_kept_offset(start_offset)),
        )


def first_kept_offset(start_offset: Offset) -> Offset | None:
    """Return the offset below which batches are dropped; None if the start offset is not known."""
    return None if start_offset == UNINITIALIZED_START_OFFSET else start_offset
