"""Reconstruction of the leader epochs of a log from its leader's OffsetForLeaderEpoch responses. Pure.

For epoch e, a leader returns the largest epoch that it knows and that is not above e, and its end offset. So
the response for e - 1 contains the epoch before e, and the start of e. An epoch older than all known ones
ends where the oldest one starts: an epoch without records, which ends the walk.

    log (5, 0) (7, 10), end 30    request 7: (7, 30)   request 6: (5, 10)   request 4: (4, 0)

Source: KIP-320; LeaderEpochFileCache.endOffsetFor of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.storage.leader_epoch import EpochEntry


class LineageWalk:
    """Collects the leader epochs of a log from the newest to the oldest.

    Request `next_epoch` from the leader and pass the response to `add_response`, until `next_epoch` is None.
    `latest_epoch` is that of the leader; the walk ends at `log_start_offset`.
    """

    def __init__(self, latest_epoch: LeaderEpoch, log_start_offset: Offset) -> None:
        self._log_start_offset = log_start_offset
        self._above: LeaderEpoch | None = None
        self._entries: list[EpochEntry] = []
        self.next_epoch: LeaderEpoch | None = latest_epoch if latest_epoch >= 0 else None
        self.log_end_offset: Offset | None = None

    def add_response(self, epoch: LeaderEpoch, end_offset: Offset) -> None:
        """Add the leader's response for `next_epoch`; (-1, -1) if the leader does not know it."""
        requested = self.next_epoch
        assert requested is not None
        if epoch < 0:
            # The leader has not written in this epoch yet: the one below may be its latest.
            self._continue_below(requested)
            return
        if self._above is None:
            self.log_end_offset = end_offset
        else:
            self._entries.append(EpochEntry(self._above, end_offset))
        if self._above is not None and self._is_complete(end_offset):
            self.next_epoch = None
            return
        self._above = epoch
        self._continue_below(epoch)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The epochs that have records, oldest first, with their start offsets."""
        entries: list[EpochEntry] = []
        for entry in self._entries:
            # Newest first: an epoch with the same start as the one above it has no records.
            if not entries or entry.start_offset < entries[-1].start_offset:
                entries.append(entry)
        return tuple(reversed(entries))

    def _is_complete(self, start_offset: Offset) -> bool:
        is_empty = len(self._entries) > 1 and start_offset >= self._entries[-2].start_offset
        return start_offset <= self._log_start_offset or is_empty

    def _continue_below(self, below: LeaderEpoch) -> None:
        # There is no epoch below 0: then the oldest epoch starts at the log start.
        self.next_epoch = below - 1 if below > 0 else None
        if self.next_epoch is None and self._above is not None:
            self._entries.append(EpochEntry(self._above, self._log_start_offset))
