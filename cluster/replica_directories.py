"""Log directories as the metadata names them: which ids mean no directory, and whether one is online.

Source: KIP-858; DirectoryId of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from cluster.image import BrokerImage
from protocol.schema import ZERO_UUID

UNASSIGNED: Final = ZERO_UUID
"""The directory is not known yet: the broker will choose one and tell."""

LOST: Final = UUID(int=1)
"""The directory is none of those that are online."""

MIGRATING: Final = UUID(int=2)
"""The replica is older than the registration of directories."""

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


def default_directory(broker: BrokerImage | None) -> UUID:
    """The directory of a new replica: known at once only where a broker has just one."""
    if broker is None:
        return UNASSIGNED
    if not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED
