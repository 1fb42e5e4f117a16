"""A backup of a cluster."""

from __future__ import annotations

from tidelog.broker.backup.archive import (
    ClusterBackup,
    CommittedOffset,
    PartitionRange,
)
from tidelog.protocol.ids import TopicPartition

TIDES, OTHER = TopicPartition("tides", 3), TopicPartition("other", 0)
BACKUP = ClusterBackup(
    cluster_id="EBZs8HyEQV-D2_BDl2WcWg",
    created_ms=1_795_809_770_949,
    metadata_offset=71,
    metadata_epoch=4,
    metadata=b"snapshot" * 100,
    groups={
        "harbour": {
            TIDES: CommittedOffset(7, 2, "note"),
            TopicPartition("a", 0): CommittedOffset(1, None, ""),
        }
    },
    partitions={TIDES: PartitionRange(5, 900)},
)
