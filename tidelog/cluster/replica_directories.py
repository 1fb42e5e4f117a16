"""Reserved ids of log directories in the metadata, and rules for the directories of replicas.

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
    """Return whether Kafka reserves the id `directory`; no log directory has a reserved id."""
    return directory.int < _RESERVED


def is_online(directory: UUID, online: Sequence[UUID]) -> bool:
    """Return whether a replica in `directory` is online if its broker has the directories `online`."""
    if directory in (UNASSIGNED, MIGRATING):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def default_directory(log_dirs: Sequence[UUID] | None) -> UUID:
    """Return the directory of a new replica on a broker with the directories `log_dirs`.

    `log_dirs` is None if the broker is not registered. The directory is UNASSIGNED if the broker has several.
    """
    if log_dirs is None:
        return UNASSIGNED
    if not log_dirs:
        return MIGRATING
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED
