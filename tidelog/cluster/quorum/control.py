"""Control records of the metadata log and of its snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.control_batch import (
    ControlMessage,
    ControlRecordType,
    control_batch,
    read_control_record,
)
from tidelog.protocol.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.protocol.control_records import Voter as LeaderChangeVoter
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.record import iterate_records


def control_messages(
    batches: bytes | bytearray | memoryview, from_offset: Offset = 0
) -> Iterator[tuple[Offset, ControlMessage]]:
    """Yield the control records at `from_offset` and above in whole batches.

    Errors: DecodeError for a malformed control record.
    """
    for position, header in iterate_headers(batches):
        if not header.is_control or header.next_offset <= from_offset:
            continue
        for record in iterate_records(batches, position, header):
            control_record = read_control_record(record)
            if control_record is not None and record.offset >= from_offset:
                _, message = control_record
                yield record.offset, message


def leader_change(
    leader_id: BrokerId, voters: Iterable[BrokerId], granting_voters: Iterable[BrokerId]
) -> tuple[ControlRecordType, ControlMessage]:
    """Return the LeaderChange record, the first record of a new leader."""
    return ControlRecordType.LEADER_CHANGE, LeaderChangeMessage(
        leader_id=leader_id,
        voters=tuple(LeaderChangeVoter(voter_id=each) for each in voters),
        granting_voters=tuple(LeaderChangeVoter(voter_id=each) for each in granting_voters),
    )


def voters_record(voters: VoterSet) -> tuple[ControlRecordType, ControlMessage]:
    """Return the record of a new voter set."""
    return ControlRecordType.KRAFT_VOTERS, voters.to_record()


def kraft_version_record(version: int) -> tuple[ControlRecordType, ControlMessage]:
    """Return the record of a new kraft.version."""
    return ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(k_raft_version=version)


def data_batch(
    values: Sequence[bytes], *, base_offset: Offset, epoch: LeaderEpoch, timestamp: int
) -> bytearray:
    """Return a batch of records without keys; `timestamp` is in ms since the epoch."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    builder.append_values(timestamp, values)
    return builder.build()


def snapshot_header_batch(
    *,
    last_contained_log_timestamp: int,
    kraft_version: int,
    voters: VotersRecord | None,
    epoch: LeaderEpoch,
    timestamp: int,
) -> bytearray:
    """Return the first batch of a snapshot; it contains voters only if they are dynamic (KIP-853)."""
    records: list[tuple[ControlRecordType, ControlMessage]] = [
        (
            ControlRecordType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp),
        )
    ]
    if kraft_version > 0:
        records.append(kraft_version_record(kraft_version))
        if voters is not None:
            records.append((ControlRecordType.KRAFT_VOTERS, voters))
    return control_batch(records, timestamp=timestamp, base_offset=0, leader_epoch=epoch)


def snapshot_footer_batch(*, base_offset: Offset, epoch: LeaderEpoch, timestamp: int) -> bytearray:
    """Return the last batch of a snapshot."""
    footer = (ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord())
    return control_batch([footer], timestamp=timestamp, base_offset=base_offset, leader_epoch=epoch)
