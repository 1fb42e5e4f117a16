"""After an unclean election the tier has two versions of the same offsets: the log's own is read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from tests.support.logs.partition_logs import all_records, append
from tests.support.tier.bucket import TierBucket
from tests.support.tier.remote_tier import PARTITION
from tidelog.remote.direct.bucket_tier import BucketTier
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.metadata.store import PartitionMetadataStore
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.spark_connector.arrow.decoder import DecoderSettings
from tidelog.spark_connector.planning.segment_slices import OffsetPositions, divide_part
from tidelog.spark_connector.reading.slice_reader import read_slice
from tidelog.storage.log.partition_log import PartitionLog

STARTED, FINISHED, *_ = RemoteLogSegmentState


def rows(tier: TierBucket, parts: list[SegmentPart]) -> list[tuple[int, bytes | None]]:
    return [
        (row["offset"], row["value"])
        for part in parts
        for one in divide_part(part, OffsetPositions.empty(), 1)
        for batch in read_slice(tier.bucket.storage, one, DecoderSettings())
        for row in batch.to_pylist()
    ]


def records(log: PartitionLog, end: int) -> list[tuple[int, bytes | None]]:
    return [(one.offset, one.value) for one in all_records(log, 0) if one.offset < end]


def diverged_tiers(folder: Path) -> tuple[TierBucket, TierBucket]:
    """Return two tiers in one bucket: the second log lacks the last records of the first."""
    lost, present = TierBucket(folder / "lost"), TierBucket(folder / "present")
    for tier in (lost, present):
        tier.fill(2, epoch=0)
    lost.fill(2, epoch=1)
    # The new leader had a few of the former leader's records of epoch 1.
    append(present.log, *(f"0 0 {record}" * 9 for record in range(3)), leader_epoch=1)
    for number in range(40):
        append(present.log, f"written after the election {number}", leader_epoch=3)
    present.log.roll(0)
    for tier in (lost, present):
        tier.copy()
    shutil.copytree(lost.root, present.root, dirs_exist_ok=True)
    return lost, present


def metadata_store_of(segments: list[RemoteLogSegmentMetadata]) -> PartitionMetadataStore:
    store = PartitionMetadataStore()
    store.open(PARTITION)
    store.mark_ready(PARTITION)
    for one in segments:
        store.apply(replace(one, state=STARTED))
    for one in segments:
        store.apply(RemoteLogSegmentMetadataUpdate(one.remote_log_segment_id, 1, FINISHED, 1))
    return store


def test_records_of_the_logs_lineage_are_read_regardless_of_copy_order(tmp_path: Path) -> None:
    for name in ("lost", "present"):
        (tmp_path / name).mkdir()
    lost, present = diverged_tiers(tmp_path)
    end = present.segments[-1].end_offset + 1
    expected = records(present.log, end)
    assert records(lost.log, end) != expected
    (offline,) = BucketTier(present.bucket).partitions(["events"]).values()
    assert offline.end_offset == end
    assert rows(present, offline.tier.parts(0, 1 << 40)) == expected
    orders = (lost.segments + present.segments, present.segments + lost.segments)
    for segments in orders:
        tier = PartitionTier(PARTITION, tuple(present.log.leader_epochs.entries), metadata_store_of(segments))
        assert rows(present, tier.parts(0, 1 << 40)) == expected
        old = PartitionTier(PARTITION, tuple(lost.log.leader_epochs.entries), metadata_store_of(segments))
        assert rows(present, old.parts(0, 1 << 40)) == records(lost.log, lost.segments[-1].end_offset + 1)
