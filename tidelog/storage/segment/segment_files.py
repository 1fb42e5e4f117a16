"""Creating and removing the files of one segment."""

from __future__ import annotations

from contextlib import suppress
from zlib import crc32

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import SEGMENT_SUFFIXES, file_name
from tidelog.storage.segment.segment import LogSegment


def roll_jitter_ms(config: LogConfig, topic_partition: TopicPartition, base_offset: Offset) -> int:
    """Return how much earlier than segment.ms a segment rolls, so that many logs do not roll at once.

    Kafka draws it at random. Here it is derived from the names, so that runs can be repeated.
    """
    limit = min(config.segment_jitter_ms, config.max_segment_ms)
    return crc32(f"{topic_partition}-{base_offset}".encode()) % limit if limit > 0 else 0


def create_segment(
    fs: FileSystem,
    directory: str,
    topic_partition: TopicPartition,
    base_offset: Offset,
    config: LogConfig,
    now_ms: int,
) -> LogSegment:
    """Create an empty segment, which is not yet part of a log.

    Files that an earlier segment left under the same names are removed first.
    Errors: OSError; then no file of the segment remains.
    """
    remove_segment_files(fs, directory, base_offset)
    try:
        return LogSegment(
            fs,
            directory,
            base_offset,
            config,
            now_ms,
            create=True,
            roll_jitter_ms=roll_jitter_ms(config, topic_partition, base_offset),
        )
    except OSError:
        # The log would end at an empty segment file that remains here when it is opened again.
        with suppress(OSError):
            remove_segment_files(fs, directory, base_offset)
        raise


def remove_segment_files(fs: FileSystem, directory: str, base_offset: Offset, suffix: str = "") -> None:
    """Unlink the files of a segment that have `suffix` after their names."""
    for kind in SEGMENT_SUFFIXES:
        path = f"{directory}/{file_name(base_offset, kind)}{suffix}"
        if fs.exists(path):
            fs.unlink(path)
