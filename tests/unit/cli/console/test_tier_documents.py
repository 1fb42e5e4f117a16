"""The document of a partition in the object store: epochs, objects, copies and deletions."""

from __future__ import annotations

from uuid import UUID

from tidelog.cli.console.tier_documents import EPOCHS_SHOWN, SEGMENTS_SHOWN, partition_document
from tidelog.protocol.ids import BrokerId
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.metadata.store import PartitionMetadataStore
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import EpochEntry

PARTITION = TopicIdPartition(UUID(int=7), "tides", 3)


class TierFixture:
    """The metadata of one partition."""

    def __init__(self, epochs: int = 1) -> None:
        self.store = PartitionMetadataStore()
        self.store.open(PARTITION)
        self.store.mark_ready(PARTITION)
        self.lineage = tuple(EpochEntry(number, 10 * number) for number in range(epochs))

    def add_segment(self, number: int, *states: RemoteLogSegmentState) -> None:
        """Begin the copy of a segment of ten offsets, and apply further states."""
        segment_id = RemoteLogSegmentId(PARTITION, UUID(int=100 + number))
        self.store.apply(
            RemoteLogSegmentMetadata(
                remote_log_segment_id=segment_id,
                start_offset=10 * number,
                end_offset=10 * number + 9,
                max_timestamp_ms=5,
                broker_id=BrokerId(1),
                event_timestamp_ms=1_000 + number,
                segment_size_bytes=200,
                segment_leader_epochs=(EpochEntry(0, 10 * number),),
            )
        )
        for state in states:
            self.store.apply(RemoteLogSegmentMetadataUpdate(segment_id, 2_000, state, BrokerId(1)))

    def document(self) -> dict[str, object]:
        """Return the document of the partition."""
        return partition_document(3, PartitionTier(PARTITION, self.lineage, self.store))


FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


def test_objects_and_bytes_are_those_of_finished_segments() -> None:
    fixture = TierFixture()
    fixture.add_segment(0, FINISHED, DELETING)
    fixture.add_segment(1, FINISHED)
    fixture.add_segment(2, FINISHED)
    fixture.add_segment(3)
    document = fixture.document()
    assert (document["segments"], document["objects"], document["size_bytes"]) == (2, 6, 400)
    assert document["copies"] == [
        {"start_offset": 30, "end_offset": 39, "size_bytes": 200, "broker": 1, "since_ms": 1_003}
    ]
    assert (document["copy_count"], document["deletion_count"]) == (1, 1)


def test_the_newest_epochs_and_a_limited_number_of_copies_are_shown() -> None:
    fixture = TierFixture(epochs=EPOCHS_SHOWN + 5)
    for number in range(SEGMENTS_SHOWN + 5):
        fixture.add_segment(number)
    document = fixture.document()
    epochs, copies = document["leader_epochs"], document["copies"]
    assert isinstance(epochs, list) and isinstance(copies, list)
    assert (len(epochs), epochs[-1]["leader_epoch"]) == (EPOCHS_SHOWN, EPOCHS_SHOWN + 4)
    assert (len(copies), document["copy_count"]) == (SEGMENTS_SHOWN, SEGMENTS_SHOWN + 5)
