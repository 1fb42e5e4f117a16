"""The state that a follower needs to continue after a remote segment: leader epochs and producers.

I/O: blocks. Errors: RemoteStorageError; CorruptCheckpoint for epochs that cannot be read.
Source: RemoteLogManager, TierStateMachine.buildRemoteLogAuxState of Apache Kafka 4.3; KIP-405.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType, RemoteResourceNotFound, RemoteStorageManager
from tidelog.remote.ports.streams import read_all
from tidelog.storage.disk.checkpoints import decode_leader_epochs
from tidelog.storage.leader_epoch import EpochEntry

AUXILIARY_BYTES_MAX: Final = 256 << 20


class AuxiliaryState(NamedTuple):
    """The leader epochs up to the segment's end, and the producer snapshot at its end.

    The snapshot is None if there is none.
    """

    leader_epochs: list[EpochEntry]
    producer_snapshot: bytes | None


def fetch_auxiliary(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
    """Return the state from the small files that are stored with the segment."""
    epochs = read_all(storage.fetch_index(metadata, IndexType.LEADER_EPOCH), AUXILIARY_BYTES_MAX)
    try:
        producers: bytes | None = read_all(
            storage.fetch_index(metadata, IndexType.PRODUCER_SNAPSHOT), AUXILIARY_BYTES_MAX
        )
    except RemoteResourceNotFound:
        producers = None
    name = f"the leader epochs of {metadata.remote_log_segment_id}"
    return AuxiliaryState(decode_leader_epochs(epochs, name), producers)
