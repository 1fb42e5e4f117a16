"""The ids of log directories in the metadata: the reserved ones, and whether a directory is online.

Source: KIP-858; DirectoryId of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tidelog.protocol.schema import ZERO_UUID

MIGRATING: Final = ZERO_UUID
"""The replica was created before directories were registered: its directory is unknown."""

UNASSIGNED: Final = UUID(int=1)
"""The replica has no directory yet: its broker chooses one and reports it."""

LOST: Final = UUID(int=2)
"""The replica is in a directory that is not online."""

_RESERVED: Final = 100


def is_reserved(directory: UUID) -> bool:
    """Return whether Kafka reserves an id, so that no real directory has it."""
    return directory.int < _RESERVED


def is_online(directory: UUID, online: Sequence[UUID]) -> bool:
    """Return whether a replica in `directory` is online if its broker has the directories `online`."""
    if directory in (UNASSIGNED, MIGRATING):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def default_directory(log_dirs: Sequence[UUID] | None) -> UUID:
    """Return the directory of a new replica on a broker with `log_dirs` (None: it is not registered).

    It is known immediately only if the broker has exactly one.
    """
    if log_dirs is None:
        return UNASSIGNED
    if not log_dirs:
        return MIGRATING
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED
