"""The source of a batch that is appended to a log."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """The origin of a batch, which decides how much of it is validated.

    Source: AppendOrigin of Apache Kafka 4.3.
    """

    REPLICATION = 0
    """A leader: offsets are assigned, and only the checksum is validated."""
    COORDINATOR = 1
    """A coordinator of this broker: control batches are allowed."""
    CLIENT = 2
    """A produce request."""
    RAFT = 3
    """The leader of the metadata quorum: offsets and epochs are assigned and must be right."""
