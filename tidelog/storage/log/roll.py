"""Starting a new segment behind the one that is full."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import SEGMENT_SUFFIXES, file_name
from tidelog.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from tidelog.storage.log.state import LogState


def roll_jitter_ms(config: LogConfig, topic_partition: TopicPartition, base_offset: Offset) -> int:
    """How much earlier than segment.ms this segment rolls, so that many logs do not roll at once.

    Kafka draws it at random; here it follows from the names, so that runs can be repeated.
    """
    limit = min(config.segment_jitter_ms, config.max_segment_ms)
    return crc32(f"{topic_partition}-{base_offset}".encode()) % limit if limit > 0 else 0


def roll_segment(log: LogState, base_offset: Offset, now_ms: int) -> LogSegment:
    """Seal the active segment and open one that starts at `base_offset`.

    The producers' state is written beside it, so that recovery can begin there; it is synced with the
    next flush, as are the indexes. When a step fails the log continues with the segment it had.
    """
    active = log.segments.active
    if active.base_offset == base_offset and active.size_bytes == 0:
        return active
    active.complete_indexes()
    if log.recovery_point >= log.log_end_offset:
        # All of the segment is flushed already, so that no flush or recovery will look at it again.
        active.sync_indexes()
    log.producers.map_end_offset = base_offset
    snapshot = log.producers.take_snapshot(sync=False)
    if snapshot is not None:
        log.unsynced_paths.append(snapshot)
    segment = create_segment(log, base_offset, now_ms)
    log.segments.add(segment)
    active.unload_indexes()
    return segment


def create_segment(log: LogState, base_offset: Offset, now_ms: int) -> LogSegment:
    """A new, empty segment that is not yet part of the log; all of its files are there or none is."""
    _remove_files(log.fs, log.directory, base_offset)
    try:
        return LogSegment(
            log.fs,
            log.directory,
            base_offset,
            log.config,
            now_ms,
            create=True,
            roll_jitter_ms=roll_jitter_ms(log.config, log.topic_partition, base_offset),
        )
    except OSError:
        # An empty segment file left behind would end the log here when it is opened again.
        with suppress(OSError):
            _remove_files(log.fs, log.directory, base_offset)
        raise


def _remove_files(fs: FileSystem, directory: str, base_offset: Offset) -> None:
    for suffix in SEGMENT_SUFFIXES:
        path = f"{directory}/{file_name(base_offset, suffix)}"
        if fs.exists(path):
            fs.unlink(path)
