"""The promises of the cluster: committed entries and acknowledged records.

The first node whose high watermark passes an entry adds it to the ledger. The entries that other nodes commit
later are compared with it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING
from zlib import crc32

from tests.sim.quorum.memory_log import StoredBatch
from tests.sim.quorum.records import digest_of, voters_in
from tests.sim.quorum.violation import Violation
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_set import VoterSet

if TYPE_CHECKING:
    from tests.sim.quorum.node import SimNode


class Ledger:
    """The one history on which all nodes must agree."""

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.voter_sets: list[tuple[int, VoterSet]] = []
        self.acknowledged = 0
        self._bases: list[int] = []
        self._digests: list[int] = []
        self._committed_in: list[int] = []

    @property
    def end_offset(self) -> int:
        """Return the end of the committed entries."""
        return self.batches[-1].next_offset if self.batches else 0

    def extend(self, batch: StoredBatch, epoch: int) -> None:
        """Add a committed batch; `epoch` is that of the leader that committed it."""
        assert batch.base_offset == self.end_offset
        self._committed_in.append(epoch)
        self._bases.append(batch.base_offset)
        self.batches.append(batch)
        self._digests.append(crc32(batch.data, self._digests[-1] if self._digests else 0))
        if batch.is_control and (voters := voters_in(batch.data)) is not None:
            self.voter_sets.append((batch.base_offset, voters))

    def batch_at(self, offset: int) -> StoredBatch | None:
        """Return the committed batch that holds `offset`."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0 or offset >= self.batches[at].next_offset:
            return None
        return self.batches[at]

    def commit_epoch_of(self, batch: StoredBatch) -> int | None:
        """Return the epoch in which a batch was committed; None if it was not."""
        at = bisect_right(self._bases, batch.base_offset) - 1
        return self._committed_in[at] if at >= 0 and self.batches[at] == batch else None

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the entry before `offset`."""
        if offset == 0:
            return 0
        batch = self.batch_at(offset - 1)
        assert batch is not None, f"{offset} is not committed"
        return batch.epoch

    def digest_before(self, offset: int) -> int:
        """Return a checksum of all entries below `offset`, which is the end of a batch."""
        if offset == 0:
            return 0
        at = bisect_right(self._bases, offset - 1) - 1
        assert self.batches[at].next_offset == offset, f"{offset} is inside a batch"
        return self._digests[at]

    def voters_before(self, offset: int) -> VoterSet | None:
        """Return the voter set of the entries below `offset`."""
        return next((voters for at, voters in reversed(self.voter_sets) if at < offset), None)

    def acknowledge(self, node: SimNode, last_offset: int, epoch: int, values: object) -> None:
        """Record that `node` acknowledged its records to a client."""
        batch = self.batch_at(last_offset)
        if batch is None or batch.epoch != epoch or batch.next_offset != last_offset + 1:
            raise Violation(
                "acknowledged_records_are_committed",
                f"node {node.id}: {values!r} at {last_offset} of epoch {epoch}, committed is {batch}",
            )
        assert isinstance(values, list)
        if not all(value in batch.data for value in values):
            raise Violation("acknowledged_records_are_committed", f"{values!r} is not in {batch}")
        self.acknowledged += len(values)

    def check_snapshot(self, node: SimNode, snapshot_id: SnapshotId) -> None:
        """Check that a loaded snapshot contains committed data."""
        data = node.disk.log.snapshots[snapshot_id]
        expected = self.digest_before(snapshot_id.end_offset), self.epoch_before(snapshot_id.end_offset)
        actual = digest_of(data), snapshot_id.epoch
        if expected != actual:
            raise Violation(
                "snapshots_hold_committed_data",
                f"node {node.id} loads {snapshot_id}: {actual}, not {expected}",
            )
