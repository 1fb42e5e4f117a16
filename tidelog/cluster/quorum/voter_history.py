"""The voter sets and kraft.versions in the log, by offset.

A VotersRecord applies as soon as it is in the log, committed or not, until it is truncated.

Source: KIP-853.
"""

from __future__ import annotations

from typing import Final

from tidelog.cluster.quorum.control import control_messages
from tidelog.cluster.quorum.log import ReadableRaftLog, SnapshotId
from tidelog.cluster.quorum.voter_set import KRAFT_VERSION_STATIC, VoterSet
from tidelog.protocol.batch import iterate_headers, read_header
from tidelog.protocol.control_batch import ControlMessage
from tidelog.protocol.control_records import KRaftVersionRecord, VotersRecord
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset

_HEAD_BYTES: Final = 64 * 1024
_SCAN_BYTES: Final = 8 * 1024 * 1024


class VoterHistory:
    """Voter sets by the offset of their record; `static` applies before the first of them.

    The voter set in a snapshot has the offset before the snapshot's end: -1 for the bootstrap snapshot
    of a formatted directory.
    Bounds: one entry for each change since the snapshot with which the log starts.
    """

    def __init__(self, static: VoterSet) -> None:
        self._static = static
        self._voters: list[tuple[Offset, VoterSet]] = []
        self._versions: list[tuple[Offset, int]] = []

    @property
    def last(self) -> VoterSet:
        """The current voter set."""
        return self._voters[-1][1] if self._voters else self._static

    @property
    def before_last(self) -> VoterSet:
        """The voter set before the last change, which may be uncommitted; `last` if there was no change."""
        if len(self._voters) > 1:
            return self._voters[-2][1]
        return self._static if self._static.by_id else self.last

    @property
    def last_offset(self) -> Offset | None:
        """The offset of `last` in the log; None if the voters are static."""
        return self._voters[-1][0] if self._voters else None

    @property
    def kraft_version(self) -> int:
        """The current kraft.version."""
        return self._versions[-1][1] if self._versions else KRAFT_VERSION_STATIC

    def at(self, end_offset: Offset) -> tuple[int, VoterSet | None]:
        """Return kraft.version and voters (None if static) according to the records below `end_offset`."""
        voters = [each for offset, each in self._voters if offset < end_offset]
        versions = [each for offset, each in self._versions if offset < end_offset]
        return versions[-1] if versions else KRAFT_VERSION_STATIC, voters[-1] if voters else None

    def load(self, log: ReadableRaftLog) -> None:
        """Replace all entries by those of the latest snapshot and of the log after it."""
        self._voters.clear()
        self._versions.clear()
        snapshot_id = log.latest_snapshot()
        offset = log.start_offset
        if snapshot_id is not None:
            self._read_snapshot(log, snapshot_id)
            offset = max(offset, snapshot_id.end_offset)
        while offset < log.end_offset:
            batches = log.read(offset, _SCAN_BYTES)
            next_offset = offset
            for _, header in iterate_headers(batches):
                next_offset = header.next_offset
            assert next_offset > offset, f"no batch at offset {offset} of a log that ends at {log.end_offset}"
            self.read(batches, offset)
            offset = next_offset

    def read(self, batches: bytes | bytearray | memoryview, from_offset: Offset = 0) -> bool:
        """Add the entries in appended batches; return whether the voter set has changed."""
        before = self.last
        for offset, message in control_messages(batches, from_offset):
            self._add(offset, message)
        return self.last is not before

    def truncate(self, end_offset: Offset) -> bool:
        """Remove the entries at `end_offset` and above; return whether the voter set has changed."""
        before = self.last
        self._voters = [each for each in self._voters if each[0] < end_offset]
        self._versions = [each for each in self._versions if each[0] < end_offset]
        return self.last is not before

    def trim(self, start_offset: Offset) -> None:
        """Remove the entries that only apply below `start_offset`."""
        for entries in (self._voters, self._versions):
            while len(entries) > 1 and entries[1][0] < start_offset:
                del entries[0]

    def _add(self, offset: Offset, message: ControlMessage) -> None:
        if isinstance(message, VotersRecord):
            self._voters.append((offset, VoterSet.from_record(message)))
        elif isinstance(message, KRaftVersionRecord):
            self._versions.append((offset, message.k_raft_version))

    def _read_snapshot(self, log: ReadableRaftLog, snapshot_id: SnapshotId) -> None:
        chunk = log.read_snapshot(snapshot_id, 0, _HEAD_BYTES)
        if chunk is None:
            raise DecodeError(f"snapshot {snapshot_id} does not exist")
        head, _ = chunk
        if not head:
            return
        header = read_header(head, 0)
        if header.is_control:
            for _, message in control_messages(head[: header.size_bytes]):
                self._add(snapshot_id.end_offset - 1, message)
