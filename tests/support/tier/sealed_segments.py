"""Sealed segments on disk with metadata, as a storage manager receives them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from tidelog.protocol.ids import uuid_text
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import IndexType, LogSegmentData
from tidelog.storage.leader_epoch import EpochEntry

TOPIC_ID = UUID("959eafbe-66a3-4d62-8305-44d5e92400b5")


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment: its metadata, its files, and their contents."""

    metadata: RemoteLogSegmentMetadata
    files: LogSegmentData
    log: bytes
    indexes: dict[IndexType, bytes]

    def with_custom_metadata(self, custom_metadata: bytes | None) -> RemoteLogSegmentMetadata:
        """Return the metadata after a copy."""
        return replace(self.metadata, custom_metadata=custom_metadata)

    def properties(self) -> dict[str, str]:
        """Return the segment as properties for the Java program of tests/kafka/aiven."""
        metadata, files = self.metadata, self.files
        segment_id = metadata.remote_log_segment_id
        epochs = Path(files.log).with_name("epochs")
        epochs.write_bytes(files.leader_epochs)
        described = {
            "topic": segment_id.topic_id_partition.topic,
            "partition": str(segment_id.topic_id_partition.partition),
            "topic.id": uuid_text(segment_id.topic_id_partition.topic_id),
            "segment.id": uuid_text(segment_id.id),
            "leader.epochs": ",".join(f"{e.epoch}@{e.start_offset}" for e in metadata.segment_leader_epochs),
            "start.offset": str(metadata.start_offset),
            "end.offset": str(metadata.end_offset),
            "max.timestamp.ms": str(metadata.max_timestamp_ms),
            "broker.id": str(metadata.broker_id),
            "event.timestamp.ms": str(metadata.event_timestamp_ms),
            "size.bytes": str(metadata.segment_size_bytes),
            "txn.index.empty": str(metadata.is_txn_index_empty).lower(),
            "file.log": files.log,
            "file.offset": files.offset_index,
            "file.timestamp": files.time_index,
            "file.producer": files.producer_snapshot,
            "file.epochs": str(epochs),
        }
        if files.transaction_index is not None:
            described["file.transaction"] = files.transaction_index
        return described


def make_segment(
    directory: Path,
    log: bytes,
    *,
    seed: int = 0,
    start_offset: int = 1234,
    with_transactions: bool = False,
    empty: frozenset[IndexType] = frozenset(),
) -> StoredSegment:
    """Return a segment with this log; `seed` selects its small files, and those in `empty` have no bytes."""
    chance = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    kinds = [kind for kind in IndexType if with_transactions or kind is not IndexType.TRANSACTION]
    indexes = {kind: b"" if kind in empty else chance.randbytes(chance.randint(1, 200)) for kind in kinds}
    paths = {kind: directory / f"{kind.name.lower()}.file" for kind in kinds}
    for kind, data in indexes.items():
        paths[kind].write_bytes(data)
    (directory / "segment.log").write_bytes(log)
    files = LogSegmentData(
        log=str(directory / "segment.log"),
        offset_index=str(paths[IndexType.OFFSET]),
        time_index=str(paths[IndexType.TIMESTAMP]),
        producer_snapshot=str(paths[IndexType.PRODUCER_SNAPSHOT]),
        leader_epochs=indexes[IndexType.LEADER_EPOCH],
        transaction_index=str(paths[IndexType.TRANSACTION]) if with_transactions else None,
    )
    partition = TopicIdPartition(TOPIC_ID, "topic1", 7)
    metadata = RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(partition, UUID(int=chance.getrandbits(128))),
        start_offset=start_offset,
        end_offset=start_offset + 99,
        max_timestamp_ms=1_700_000_000_000,
        broker_id=2,
        event_timestamp_ms=1_700_000_000_500,
        segment_size_bytes=len(log),
        segment_leader_epochs=(EpochEntry(0, start_offset), EpochEntry(3, start_offset + 12)),
        is_txn_index_empty=not with_transactions,
    )
    return StoredSegment(metadata, files, log, indexes)
