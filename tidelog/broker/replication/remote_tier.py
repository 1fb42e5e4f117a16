"""The remote tier as followers see it: which segment holds an offset, and what was stored with it.

I/O: the look-up is in memory; `fetch_auxiliary` of the reader is awaited by the task of one partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager, RemoteMetadataError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition


class AuxiliaryReader(Protocol):
    """Reads what was stored with a segment; the remote log reader is one."""

    def fetch_auxiliary(
        self, metadata: RemoteLogSegmentMetadata
    ) -> Awaitable[tuple[Sequence[tuple[LeaderEpoch, Offset]], bytes | None]]:
        """The leader epochs up to the segment's end, and the producers there as a `.snapshot` file has them.

        Errors: RemoteStorageError and others of the tier, PoolFull.
        """


@dataclass(frozen=True, slots=True)
class FollowersTier:
    """The tier for the fetchers of one node; its look-up is what the follower's state machine uses."""

    metadata: RemoteLogMetadataManager
    reader: AuxiliaryReader

    def segment_with(
        self, topic_id: UUID, topic_partition: TopicPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` of `epoch`; None also while the metadata is being read."""
        partition = TopicIdPartition(topic_id, *topic_partition)
        try:
            if not self.metadata.is_ready(partition):
                return None
            return self.metadata.remote_log_segment_metadata(partition, epoch, offset)
        except RemoteMetadataError:
            return None
