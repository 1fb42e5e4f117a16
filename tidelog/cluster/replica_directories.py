"""Log directories as the metadata names them: which ids mean no directory, and whether one is online.

Source: KIP-858; DirectoryId of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tidelog.protocol.schema import ZERO_UUID

MIGRATING: Final = ZERO_UUID
"""The replica is older than the registration of directories: its directory is unknown."""

UNASSIGNED: Final = UUID(int=1)
"""The replica has no directory yet: its broker chooses one and reports it."""

LOST: Final = UUID(int=2)
"""The replica is in a directory, and that is none of those that are online."""

_RESERVED: Final = 100


def is_reserved(directory: UUID) -> bool:
    """Whether an id is one of those that Kafka keeps for itself, and so of no real directory."""
    return directory.int < _RESERVED


def is_online(directory: UUID, online: Sequence[UUID]) -> bool:
    """Whether a replica in `directory` can be used while its broker has the directories `online`."""
    if directory in (UNASSIGNED, MIGRATING):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def default_directory(log_dirs: Sequence[UUID] | None) -> UUID:
    """Return the directory of a new replica on a broker with `log_dirs`, None when it is not registered.

    Known at once only where the broker has just one.
    """
    if log_dirs is None:
        return UNASSIGNED
    if not log_dirs:
        return MIGRATING
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED
