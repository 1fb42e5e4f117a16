"""Logs and snapshots for the quorum tests."""

from __future__ import annotations

from tests.sim.quorum.memory_log import MemoryLog
from tests.unit.cluster.quorum.replica_fixture import control_of
from tidelog.cluster.quorum.control import (
    kraft_version_record,
    snapshot_footer_batch,
    snapshot_header_batch,
    voters_record,
)
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_set import VoterSet


def log_of(voters: VoterSet) -> MemoryLog:
    """Return a log that contains its voters, in epoch 1."""
    log = MemoryLog()
    log.append(control_of(1, 0, kraft_version_record(1), voters_record(voters)), 1)
    return log


def bootstrap_log(voters: VoterSet) -> MemoryLog:
    """Return the log of a formatted directory."""
    log = MemoryLog()
    log.snapshots[SnapshotId(0, 0)] = snapshot_of(voters)
    return log


def snapshot_of(voters: VoterSet | None) -> bytes:
    """Return a snapshot without records."""
    header = snapshot_header_batch(
        last_contained_log_timestamp=0,
        kraft_version=0 if voters is None else 1,
        voters=None if voters is None else voters.to_record(),
        epoch=0,
        timestamp=0,
    )
    return bytes(header + snapshot_footer_batch(base_offset=9, epoch=0, timestamp=0))
