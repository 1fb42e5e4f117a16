"""Finding the leader epochs of a log by asking its leader where epochs end (OffsetForLeaderEpoch). Pure.

Asked about epoch e, a leader names the largest epoch it knows that is not above e, and where that ends. So
the answer for e - 1 tells which epoch came before e, and where e starts. An epoch older than all known
ones ends where the oldest starts: an epoch without records, which ends the walk.

    log (5, 0) (7, 10), end 30    asked 7: (7, 30)   asked 6: (5, 10)   asked 4: (4, 0)

Source: KIP-320; LeaderEpochFileCache.endOffsetFor of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.storage.leader_epoch import EpochEntry


class LineageWalk:
    """Ask about `next_epoch` and tell the `answer`, until `next_epoch` is None.

    `latest_epoch` is that of the leader, `log_start_offset` how far down it is of interest.
    """

    def __init__(self, latest_epoch: LeaderEpoch, log_start_offset: Offset) -> None:
        self._log_start_offset = log_start_offset
        self._above: LeaderEpoch | None = None
        self._entries: list[EpochEntry] = []
        self.next_epoch: LeaderEpoch | None = latest_epoch if latest_epoch >= 0 else None
        self.log_end_offset: Offset | None = None

    def answer(self, epoch: LeaderEpoch, end_offset: Offset) -> None:
        """What the leader says of `next_epoch`; (-1, -1) when it does not know."""
        asked = self.next_epoch
        assert asked is not None
        if epoch < 0:
            # The leader has not begun to write in it: the one below may be its latest.
            self._go_on(asked)
            return
        if self._above is None:
            self.log_end_offset = end_offset
        else:
            self._entries.append(EpochEntry(self._above, end_offset))
        if self._above is not None and self._is_over(end_offset):
            self.next_epoch = None
            return
        self._above = epoch
        self._go_on(epoch)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The epochs that have records, oldest first, and where each starts."""
        found: list[EpochEntry] = []
        for entry in self._entries:
            # Newest first: an epoch that starts where the one above it does has no records.
            if not found or entry.start_offset < found[-1].start_offset:
                found.append(entry)
        return tuple(reversed(found))

    def _is_over(self, start_offset: Offset) -> bool:
        is_empty = len(self._entries) > 1 and start_offset >= self._entries[-2].start_offset
        return start_offset <= self._log_start_offset or is_empty

    def _go_on(self, below: LeaderEpoch) -> None:
        # Below epoch 0 there is nothing to ask about: then the oldest epoch starts where the log does.
        self.next_epoch = below - 1 if below > 0 else None
        if self.next_epoch is None and self._above is not None:
            self._entries.append(EpochEntry(self._above, self._log_start_offset))
