"""Creating and removing the files of one segment."""

from __future__ import annotations

from contextlib import suppress

from tidelog.protocol.ids import Offset
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import SEGMENT_SUFFIXES, file_name
from tidelog.storage.segment.segment import LogSegment


def create_segment(
    fs: FileSystem,
    directory: str,
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
