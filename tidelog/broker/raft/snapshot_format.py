"""The contents of a metadata snapshot: record batches between a header and a footer record (KIP-630).

    control batch   SnapshotHeader, and with kraft.version 1: KRaftVersion, Voters
    data batches    the metadata as records
    control batch   SnapshotFooter

Offsets begin at 0 and are independent of those of the log. Every batch has the epoch of the snapshot. The
file `bootstrap.checkpoint` has the same format.

Errors: CorruptFile for a snapshot that is damaged or has no footer.
Source: RecordsSnapshotWriter and RecordsSnapshotReader of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.cluster.features import METADATA_VERSION_4_3
from tidelog.cluster.metadata_log_codec import decode_record, encode_record
from tidelog.cluster.quorum.control import snapshot_footer_batch, snapshot_header_batch
from tidelog.protocol.batch import BatchHeader, crc_is_valid, iterate_headers, read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.control_batch import read_control_record
from tidelog.protocol.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import LeaderEpoch
from tidelog.protocol.record import read_records
from tidelog.protocol.schema import MetadataRecord
from tidelog.storage.disk.errors import CorruptFile

BATCH_BYTES: Final = 512 * 1024
"""The size at which a batch is complete and a new one starts."""


@dataclass(slots=True)
class SnapshotHead:
    """The control records before the metadata of a snapshot.

    `last_contained_log_timestamp` is the time in ms of the last batch that the snapshot replaces.
    A `kraft_version` above 0 is written with `voters`.
    """

    last_contained_log_timestamp: int = 0
    kraft_version: int = 0
    voters: VotersRecord | None = None


def snapshot_batches(
    records: Iterable[MetadataRecord],
    head: SnapshotHead,
    *,
    epoch: LeaderEpoch,
    now_ms: int,
    metadata_version: int = METADATA_VERSION_4_3,
) -> Iterator[bytearray]:
    """Yield the batches of a snapshot in `epoch`, in order; records have the form of `metadata_version`."""
    first = snapshot_header_batch(
        last_contained_log_timestamp=head.last_contained_log_timestamp,
        kraft_version=head.kraft_version,
        voters=head.voters,
        epoch=epoch,
        timestamp=now_ms,
    )
    yield first
    offset = read_header(first).next_offset
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    for record in records:
        builder.append(now_ms, None, encode_record(record, metadata_version))
        offset += 1
        if builder.estimated_size_bytes >= BATCH_BYTES:
            yield builder.build()
            builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    if builder.record_count:
        yield builder.build()
    yield snapshot_footer_batch(base_offset=offset, epoch=epoch, timestamp=now_ms)


@dataclass(slots=True)
class Snapshot:
    """The head of a snapshot, and its records by batch."""

    head: SnapshotHead
    batches: Sequence[list[MetadataRecord]]


def read_snapshot(path: str, data: bytes) -> Snapshot:
    """Decode a snapshot. Raise CorruptFile with `path` if it is damaged, or ends before its footer."""
    head: SnapshotHead | None = None
    batches: list[list[MetadataRecord]] = []
    is_whole = False
    try:
        for position, header in _checked_headers(data):
            records = read_records(data, position, header)
            if not header.is_control:
                batches.append([decode_record(each.value or b"") for each in records])
                continue
            for each in records:
                control = read_control_record(each)
                if control is None:
                    continue
                message = control[1]
                if isinstance(message, SnapshotHeaderRecord):
                    head = SnapshotHead(message.last_contained_log_timestamp)
                elif isinstance(message, SnapshotFooterRecord):
                    is_whole = True
                elif head is not None and isinstance(message, KRaftVersionRecord):
                    head.kraft_version = message.k_raft_version
                elif head is not None and isinstance(message, VotersRecord):
                    head.voters = message
    except DecodeError as error:
        raise CorruptFile(path, str(error)) from error
    if head is None or not is_whole:
        raise CorruptFile(path, "a snapshot begins with a header record and ends with a footer record")
    return Snapshot(head, batches)


def require_whole_snapshot(path: str, data: bytes) -> None:
    """Raise CorruptFile with `path` unless all batches are complete, from a header to a footer record.

    Only the first and the last batch are decoded; for the others the checksum is sufficient.
    """
    last: tuple[int, BatchHeader] | None = None
    try:
        for place in _checked_headers(data):
            last = place
        last_contained_log_timestamp(data)
        if last is None or not _ends_snapshot(data, *last):
            raise DecodeError("the snapshot does not end with a footer record")
    except DecodeError as error:
        raise CorruptFile(path, str(error)) from error


def _checked_headers(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch. Raise DecodeError for a wrong checksum."""
    for position, header in iterate_headers(data):
        if not crc_is_valid(data, position, header):
            raise DecodeError(f"the batch at position {position} has a wrong checksum")
        yield position, header


def _ends_snapshot(data: bytes, position: int, header: BatchHeader) -> bool:
    """Return whether the batch at `position` contains the footer record."""
    records = read_records(data, position, header) if header.is_control else ()
    controls = (read_control_record(each) for each in records)
    return any(each is not None and isinstance(each[1], SnapshotFooterRecord) for each in controls)


def last_contained_log_timestamp(data: bytes) -> int:
    """Return the timestamp in ms in the header of a snapshot. Raise DecodeError if there is no header."""
    header = read_header(data)
    if not crc_is_valid(data, 0, header):
        raise DecodeError("the first batch of the snapshot is damaged")
    for record in read_records(data, 0, header):
        control = read_control_record(record) if header.is_control else None
        if control is not None and isinstance(control[1], SnapshotHeaderRecord):
            return control[1].last_contained_log_timestamp
    raise DecodeError("the snapshot does not begin with a header record")
