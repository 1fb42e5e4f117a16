"""The bytes that the simulator itself writes and looks into: snapshots and voter sets."""

from __future__ import annotations

from cluster.quorum.voter_set import VoterSet
from protocol.batch import iterate_headers
from protocol.control_batch import ControlRecordType, control_batch, read_control_record
from protocol.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.record import BatchBuilder, read_records

_DIGEST = b"digest "


def snapshot_bytes(voters: VoterSet | None, digest: int) -> bytes:
    """A snapshot: header, voters of a dynamic quorum, one record for the state, footer."""
    head: list[tuple[ControlRecordType, object]] = [
        (ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord())
    ]
    if voters is not None:
        head.append((ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(k_raft_version=1)))
        head.append((ControlRecordType.KRAFT_VOTERS, voters.to_record()))
    data = bytearray(control_batch(head, timestamp=0, base_offset=0, leader_epoch=0))  # type: ignore[arg-type]
    builder = BatchBuilder(base_offset=len(head), leader_epoch=0)
    builder.append(0, None, _DIGEST + str(digest).encode())
    data += builder.build()
    footer = [(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord())]
    data += control_batch(footer, timestamp=0, base_offset=len(head) + 1, leader_epoch=0)
    return bytes(data)


def digest_of(snapshot: bytes) -> int:
    """What `snapshot_bytes` was given."""
    for position, header in iterate_headers(snapshot):
        if not header.is_control:
            value = read_records(snapshot, position, header)[0].value
            assert value is not None
            return int(value.removeprefix(_DIGEST))
    raise AssertionError("a snapshot without state")


def voters_in(batches: bytes) -> VoterSet | None:
    """The last voter set that stands in the control batches among `batches`."""
    found: VoterSet | None = None
    for position, header in iterate_headers(batches):
        if not header.is_control:
            continue
        for record in read_records(batches, position, header):
            control = read_control_record(record)
            if control is not None and isinstance(control[1], VotersRecord):
                found = VoterSet.from_record(control[1])
    return found
