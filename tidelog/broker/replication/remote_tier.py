"""Remote storage for followers: the segment that contains an offset, and its auxiliary state.

I/O: the look-up is in memory; the task of one partition awaits `fetch_auxiliary` of the reader.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager, RemoteMetadataError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.reading.auxiliary import AuxiliaryState


class AuxiliaryReader(Protocol):
    """Reads the auxiliary state of a remote segment; the remote log reader implements it."""

    def fetch_auxiliary(self, metadata: RemoteLogSegmentMetadata) -> Awaitable[AuxiliaryState]:
        """Return the leader epochs up to the segment's end, and the producer snapshot at its end.

        The snapshot has the format of a `.snapshot` file; None if there is none.
        Errors: RemoteStorageError and others of the tier, PoolFull.
        """


@dataclass(frozen=True, slots=True)
class FollowerTier:
    """Remote storage for the fetchers of one node, in which their state machines look up segments."""

    metadata: RemoteLogMetadataManager
    reader: AuxiliaryReader

    def find_segment(
        self, topic_id: UUID, topic_partition: TopicPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """Return the completely copied segment that contains `offset` of `epoch`.

        None if there is none, or while the metadata is being loaded.
        """
        partition = TopicIdPartition(topic_id, *topic_partition)
        try:
            if not self.metadata.is_ready(partition):
                return None
            return self.metadata.remote_log_segment_metadata(partition, epoch, offset)
        except RemoteMetadataError:
            return None
