"""Segments as described by manifests, combined in the same way as brokers combine metadata.

I/O: `fetch_lineage` blocks; the rest is pure. Errors: RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tidelog.protocol.ids import Offset
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.deep import is_damage
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tidelog.remote.ports.storage_manager import IndexType, RemoteStorageError
from tidelog.remote.ports.streams import read_all
from tidelog.remote.tasks.recovered_log import log_position
from tidelog.storage.disk.checkpoints import decode_leader_epochs
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.leader_epoch import EpochEntry

_STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_EPOCH_BYTES_MAX: Final = 64 << 20


def copy_events(
    segments: Iterable[RemoteLogSegmentMetadata],
) -> Iterator[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate]:
    """Return the copies of `segments` as events of the metadata topic.

    The order of events decides which of two copies serves readers: it is that of the brokers' clocks.
    """
    for segment in sorted(segments, key=lambda segment: segment.event_timestamp_ms):
        yield replace(segment, state=_STARTED)
        yield RemoteLogSegmentMetadataUpdate(
            segment.remote_log_segment_id,
            segment.event_timestamp_ms,
            segment.state,
            segment.broker_id,
            segment.custom_metadata,
        )


def log_start_at_copy(lineage: Sequence[EpochEntry], segments: Iterable[RemoteLogSegmentMetadata]) -> Offset:
    """Return the log start at the copy of the newest segment; segments below it may be partly deleted."""
    return max(min(segment.start_offset for segment in segments), lineage[0].start_offset)


def fetch_lineage(bucket: Bucket, segments: Iterable[RemoteLogSegmentMetadata]) -> tuple[EpochEntry, ...]:
    """Return the epochs of the newest readable checkpoint, or else those of the newest segment."""
    newest_first = sorted(segments, key=log_position, reverse=True)
    for segment in newest_first:
        try:
            data = read_all(bucket.storage.fetch_index(segment, IndexType.LEADER_EPOCH), _EPOCH_BYTES_MAX)
            if entries := decode_leader_epochs(data, "leader epochs"):
                return tuple(entries)
        except CorruptFile:
            continue
        except RemoteStorageError as error:
            if not is_damage(error):
                raise
    return newest_first[0].segment_leader_epochs
