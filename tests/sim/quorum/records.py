"""Snapshots and voter sets that the simulator itself encodes and decodes."""

from __future__ import annotations

from tidelog.cluster.quorum.control import (
    control_messages,
    data_batch,
    snapshot_footer_batch,
    snapshot_header_batch,
)
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.protocol.batch import iterate_headers, read_header
from tidelog.protocol.control_records import VotersRecord
from tidelog.protocol.record import read_records

_DIGEST = b"digest "


def snapshot_bytes(voters: VoterSet | None, digest: int) -> bytes:
    """Return a snapshot: header, voters of a dynamic quorum, one record for the state, footer."""
    version = 0 if voters is None else 1
    head = snapshot_header_batch(
        last_contained_log_timestamp=0,
        kraft_version=version,
        voters=None if voters is None else voters.to_record(),
        epoch=0,
        timestamp=0,
    )
    base_offset = read_header(head).next_offset
    state = data_batch([_DIGEST + str(digest).encode()], base_offset=base_offset, epoch=0, timestamp=0)
    return bytes(head + state + snapshot_footer_batch(base_offset=base_offset + 1, epoch=0, timestamp=0))


def digest_of(snapshot: bytes) -> int:
    """Return the digest in a snapshot of `snapshot_bytes`."""
    for position, header in iterate_headers(snapshot):
        if not header.is_control:
            value = read_records(snapshot, position, header)[0].value
            assert value is not None
            return int(value.removeprefix(_DIGEST))
    raise AssertionError("a snapshot without state")


def voters_in(batches: bytes) -> VoterSet | None:
    """Return the last voter set in the control batches of `batches`; None if there is none."""
    voters: VoterSet | None = None
    for _, message in control_messages(batches):
        if isinstance(message, VotersRecord):
            voters = VoterSet.from_record(message)
    return voters
