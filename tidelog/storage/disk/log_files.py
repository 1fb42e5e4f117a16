"""How the files of a partition directory are named, and what their suffixes mean.

A segment is named by its base offset in twenty digits. A suffix after a whole file name is the state
of the file: `.deleted` will be unlinked, `.cleaned` is an incomplete result of
compaction, `.swap` a complete one that replaces the segments it was made from.

Source: Apache Kafka 4.3, LogFileUtils (names only).
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.ids import Offset

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"


def file_name(base_offset: Offset, suffix: str) -> str:
    """Return the file name, such as `00000000000000000042.log` for 42 and `.log`."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> Offset | None:
    """Return the offset in the name of a segment file, index or snapshot; None for any other name."""
    digits = name.split(".", 1)[0]
    if len(digits) != 20 or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits)


def is_segment_log(name: str) -> bool:
    """Return whether this is the log file of a segment in use (no suffix after the name)."""
    return name.endswith(LOG_SUFFIX) and base_offset_of(name) is not None


def is_index(name: str) -> bool:
    """Return whether this is an index of a segment in use."""
    return name.endswith(INDEX_SUFFIXES) and base_offset_of(name) is not None
