"""The first batches of a remote segment as a segment of its own (shell).

A topic as of a time ends within a segment. The batches before that offset are copied: read from remote
storage, appended to a log in a temporary directory, and sealed. This gives the indexes, and the producers at
the end.

I/O: blocks; reads the segment up to the end of the tail, and writes as many bytes to the directory.
Errors: RemoteStorageError if the segment cannot be read or is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, read_header
from tidelog.protocol.errors import DecodeError, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import LogSegmentData, RemoteStorageError, RemoteStorageManager
from tidelog.remote.ports.streams import ShortRead, read_exactly
from tidelog.remote.tasks.recovered_log import OffsetRange
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.disk.checkpoints import encode_leader_epochs
from tidelog.storage.disk.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.log.opening import CheckpointedState, LogLocation, LogOptions
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState

_NO_LIMIT: Final = 2**31 - 1
_FOREVER_MS: Final = 2**62
_CONFIG: Final = replace(
    DEFAULT_LOG_CONFIG,
    remote_storage_enable=True,
    segment_bytes=_NO_LIMIT,
    segment_index_bytes=256 << 20,
    segment_ms=_FOREVER_MS,
)


class TailSegment(NamedTuple):
    """A segment that was built, its files, and the `.snapshot` file with the producers at its end."""

    metadata: RemoteLogSegmentMetadata
    files: LogSegmentData


@dataclass(frozen=True, slots=True, kw_only=True)
class TailSource:
    """A segment of the source, and what is known of the log around it.

    `ranges` are the offsets of the segment that belong to the log, `lineage` the leader epochs of the log.
    `producers` is the producer snapshot at the start of the segment, None if there is none.
    """

    segment: RemoteLogSegmentMetadata
    ranges: Sequence[OffsetRange]
    lineage: Sequence[EpochEntry]
    producers: bytes | None


def batches(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Return the batches of a segment, each with its header."""
    position = 0
    with closing(storage.fetch_log_segment(segment, 0)) as stream:
        while position < segment.segment_size_bytes:
            try:
                head = bytes(read_exactly(stream, BATCH_OVERHEAD))
                header = read_header(head)
                if not BATCH_OVERHEAD <= header.size_bytes <= segment.segment_size_bytes - position:
                    raise DecodeError(f"a batch of {header.size_bytes} bytes")
                body = bytes(read_exactly(stream, header.size_bytes - BATCH_OVERHEAD))
            except (DecodeError, ShortRead) as error:
                name = f"{segment.remote_log_segment_id}: byte {position}"
                raise RemoteStorageError(f"{name} is not the start of a batch: {error}") from error
            yield header, head + body
            position += header.size_bytes


def build_tail(
    storage: RemoteStorageManager,
    source: TailSource,
    segment_id: RemoteLogSegmentId,
    timestamp_ms: int,
    directory: str,
) -> tuple[TailSegment | None, Offset | None]:
    """Return the batches up to the first one with a record later than `timestamp_ms`, as a segment.

    Also return the offset of that batch; None if the segment has no such batch in the log. The segment is
    None if that batch is the first one.
    """
    start = source.ranges[0].start_offset
    log = _empty_log(source, start, timestamp_ms, segment_id, directory)
    end_offset = None
    try:
        for header, data in batches(storage, source.segment):
            if not any(each.start_offset <= header.base_offset < each.end_offset for each in source.ranges):
                continue
            if header.max_timestamp > timestamp_ms:
                end_offset = header.base_offset
                break
            log.append_as_follower(data, timestamp_ms)
        if log.log_end_offset == start:
            return None, end_offset
        log.roll(timestamp_ms)
        return _sealed(log, source, segment_id), end_offset
    except KafkaError as error:
        raise RemoteStorageError(f"{source.segment.remote_log_segment_id}: {error}") from error
    finally:
        log.close(clean=True, now_ms=timestamp_ms)


def _empty_log(
    source: TailSource, start: Offset, now_ms: int, segment_id: RemoteLogSegmentId, directory: str
) -> PartitionLog:
    """Return a log that continues at `start`, with the leader epochs and the producers before it."""
    partition = segment_id.topic_id_partition
    log = PartitionLog.open(
        LogLocation(OsFileSystem(), directory, partition.topic_partition, partition.topic_id),
        _CONFIG,
        CheckpointedState(),
        now_ms=now_ms,
        options=LogOptions(producer_id_expiration_ms=_FOREVER_MS, remote_storage_system_enable=True),
    )
    epochs = LeaderEpochCache.of(source.lineage)
    epochs.truncate_from_end(start)
    log_start = min([start, *(entry.start_offset for entry in epochs.entries[:1])])
    log.restart_from_remote(RemoteState(log_start, start, epochs.entries, source.producers), now_ms)
    return log


def _sealed(log: PartitionLog, source: TailSource, segment_id: RemoteLogSegmentId) -> TailSegment:
    segment, end_offset = log.segments.first, log.log_end_offset

    def path(suffix: str) -> str:
        return f"{log.directory}/{file_name(segment.base_offset, suffix)}"

    metadata = replace(
        source.segment,
        remote_log_segment_id=segment_id,
        start_offset=segment.base_offset,
        end_offset=end_offset - 1,
        max_timestamp_ms=segment.largest_timestamp(),
        segment_size_bytes=segment.size_bytes,
        segment_leader_epochs=tuple(log.leader_epochs.entries_in_range(segment.base_offset, end_offset)),
        custom_metadata=None,
        is_txn_index_empty=segment.txn_index.entry_count == 0,
    )
    files = LogSegmentData(
        log=path(LOG_SUFFIX),
        offset_index=path(OFFSET_INDEX_SUFFIX),
        time_index=path(TIME_INDEX_SUFFIX),
        producer_snapshot=log.producers.snapshots.path(end_offset),
        leader_epochs=encode_leader_epochs(log.leader_epochs.entries_in_range(-1, end_offset)),
        transaction_index=path(TXN_INDEX_SUFFIX) if segment.txn_index.entry_count else None,
    )
    return TailSegment(metadata, files)
