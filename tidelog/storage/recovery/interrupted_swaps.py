"""Files that an interrupted deletion, compaction or split left in a partition directory.

| suffix | meaning | what is done |
|---|---|---|
| .deleted | was about to be unlinked | unlinked |
| .cleaned | incomplete result of compaction | unlinked, and with it every .swap from its offset on |
| .swap | complete result of compaction | replaces the segments whose offsets it contains |

Every step can be repeated, so a crash in between does no harm. Files of KRaft snapshots do not change:
their names are not names of segments. Source: LogLoader of Apache Kafka 4.3, KAFKA-6264.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offset_of,
    file_name,
)
from tidelog.storage.segment.batch_scan import LONG_SCAN_BYTES, headers

_log = logging.getLogger(__name__)

_ALWAYS_THERE: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


def finish_interrupted_swaps(fs: FileSystem, directory: str) -> None:
    """Complete an interrupted operation in a partition directory, or restore the state before it."""
    cleaned: list[tuple[Offset, str]] = []
    swaps: list[tuple[Offset, str]] = []
    for name in fs.listdir(directory):
        offset = base_offset_of(name)
        if offset is None:
            continue
        if name.endswith(DELETED_SUFFIX):
            fs.unlink(f"{directory}/{name}")
        elif name.endswith(CLEANED_SUFFIX):
            cleaned.append((offset, name))
        elif name.endswith(SWAP_SUFFIX):
            swaps.append((offset, name))
    if not cleaned and not swaps:
        return
    first_cleaned = min((offset for offset, _ in cleaned), default=None)
    for offset, name in swaps:
        if first_cleaned is not None and offset >= first_cleaned:
            _unlink(fs, directory, name, "part of an incomplete split")
    if cleaned and swaps:
        fs.fsync_dir(directory)  # without the .cleaned file the .swap files would be valid
    for _, name in cleaned:
        _unlink(fs, directory, name, "incomplete result of compaction")
    finished = [(o, name) for o, name in swaps if first_cleaned is None or o < first_cleaned]
    if finished:
        _replace_by_swaps(fs, directory, finished)
    fs.fsync_dir(directory)


def _replace_by_swaps(fs: FileSystem, directory: str, swaps: list[tuple[Offset, str]]) -> None:
    logs = [(offset, name) for offset, name in swaps if name == f"{offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"]
    if logs:
        start = min(offset for offset, _ in logs)
        end = max(_next_offset(fs, f"{directory}/{name}", offset) for offset, name in logs)
        placed = _placed_indexes([offset for offset, _ in logs], {name for _, name in swaps})
        for name in fs.listdir(directory):
            offset = base_offset_of(name)
            if name.endswith(SWAP_SUFFIX) or name in placed:
                continue
            if offset is not None and start <= offset < end:
                _unlink(fs, directory, name, "replaced by cleaning")
        # Otherwise another crash could keep the new names and the old files, which look alike.
        fs.fsync_dir(directory)
    for _, name in swaps:
        _log.warning("%s/%s: a complete result of compaction is renamed to its segment", directory, name)
        fs.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _placed_indexes(base_offsets: list[Offset], swaps: set[str]) -> set[str]:
    """Return the indexes that were renamed already: the old ones are removed before the first rename."""
    names = {file_name(offset, kind) for offset in base_offsets for kind in _ALWAYS_THERE}
    return {name for name in names if name + SWAP_SUFFIX not in swaps}


def _next_offset(fs: FileSystem, path: str, base_offset: Offset) -> Offset:
    file = fs.open(path, create=False)
    try:
        next_offset = base_offset
        for _, header in headers(file, 0, file.size(), LONG_SCAN_BYTES):
            next_offset = header.next_offset
        return next_offset
    finally:
        file.close()


def _unlink(fs: FileSystem, directory: str, name: str, why: str) -> None:
    _log.warning("%s/%s is removed: %s", directory, name, why)
    fs.unlink(f"{directory}/{name}")
