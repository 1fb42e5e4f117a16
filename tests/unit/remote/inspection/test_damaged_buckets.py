"""Inspection of real segments: complete ones have no finding, each kind of damage has its own."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append_marker
from tests.support.tier.bucket import TierBucket
from tests.support.tier.remote_tier import MemoryTier, StoredSegment
from tests.support.tier.segment_configs import KINDS, configs_of, key_pair, write_key_pair
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.ids import uuid_text
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.byte_range import byte_range
from tidelog.remote.inspection.coverage import coverage_findings
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.inspection.findings import Finding, Kind, Severity
from tidelog.remote.inspection.fsck import confirmed_findings, segments_to_read
from tidelog.remote.inspection.offline import offline_bucket_findings, offline_views
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.remote.ports.storage_manager import IndexType, RemoteStorageError
from tidelog.storage.disk.checkpoints import encode_leader_epochs
from tidelog.storage.leader_epoch import EpochEntry

DELETING, DELETED = (
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
)


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[TierBucket]:
    tier = TierBucket(tmp_path)
    tier.fill()
    tier.copy()
    yield tier
    tier.bucket.close()


def kinds(findings: list[Finding]) -> list[Kind]:
    return [finding.kind for finding in findings]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


# --- no damage ---


@pytest.mark.parametrize("kind", KINDS)
def test_copies_in_every_format_have_no_findings(kind: str, tmp_path: Path) -> None:
    fields = {"custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY", "key.prefix": "deep/"}
    tier = TierBucket(tmp_path, {**configs_of(kind, *write_key_pair(key_pair(), tmp_path)), **fields})
    tier.fill(2, epoch=0)
    tier.fill_with_aborts()
    tier.fill(2, epoch=4)
    assert len(tier.copy()) == 5
    assert tier.findings() == []
    views, findings = offline_views(tier.bucket, ())
    assert findings == []
    assert [segment.remote_log_segment_id for segment in views[0].segments] == [
        segment.remote_log_segment_id for segment in tier.segments
    ]
    assert views[0].lineage == tier.view().lineage
    assert views[0].partition == tier.view().partition
    for segment in tier.segments:
        _finds_every_batch(tier, segment)
    tier.bucket.close()


def _finds_every_batch(tier: TierBucket, segment: RemoteLogSegmentMetadata) -> None:
    """Check that every batch is stored where `explain` reports it."""
    log = tier.bucket.storage.fetch_log_segment(segment, 0).read()
    for position, header in iterate_headers(log):
        where = byte_range(tier.bucket, segment, header.base_offset + header.last_offset_delta // 2)
        assert (where.log_start, where.log_end) == (position, position + header.size_bytes)
        assert (where.base_offset, where.last_offset) == (header.base_offset, header.last_offset)
        stored = (tier.root / where.key).stat().st_size
        assert 0 <= where.stored_start < where.stored_end <= stored


def test_a_segment_deleted_completely_is_not_a_finding(tier: TierBucket) -> None:
    tier.step(0, DELETING)
    tier.bucket.storage.delete_log_segment_data(tier.segments[0])
    tier.step(0, DELETED)
    view = tier.view().with_log_start(tier.segments[1].start_offset)
    assert tier.bucket.findings(view, tier.bucket.sizes(view.partition)) == []


# --- objects ---


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
def test_a_missing_object_is_reported(suffix: str, tier: TierBucket) -> None:
    tier.file(1, suffix).unlink()
    (finding,) = tier.findings()
    assert finding.kind is Kind.MISSING_OBJECT
    assert finding.place.endswith(f"{uuid_text(tier.segments[1].remote_log_segment_id.id)}.{suffix}")
    assert finding.segment == tier.segments[1].remote_log_segment_id.id
    assert str(finding).startswith("LOSS missing-object: events-0 ")


@pytest.mark.parametrize("suffix", ["log", "indexes"])
def test_an_object_of_another_size_is_reported(suffix: str, tier: TierBucket) -> None:
    data = tier.file(2, suffix).read_bytes()
    tier.file(2, suffix).write_bytes(data[:-1])
    tier.file(1, suffix).write_bytes(tier.file(1, suffix).read_bytes() + b"x")
    assert kinds(tier.findings()) == [Kind.WRONG_SIZE, Kind.WRONG_SIZE]


def test_an_unreadable_manifest_is_reported(tier: TierBucket) -> None:
    tier.file(0, "rsm-manifest").write_bytes(b'{"version":"9"}')
    assert kinds(tier.findings()) == [Kind.BAD_MANIFEST]


def test_a_manifest_of_another_log_is_reported(tier: TierBucket) -> None:
    fields = json.loads(tier.file(0, "rsm-manifest").read_bytes())
    fields["chunkIndex"]["originalFileSize"] += 1
    tier.file(0, "rsm-manifest").write_bytes(json.dumps(fields).encode())
    findings = tier.findings()
    assert kinds(findings) == [Kind.WRONG_SIZE]
    assert "in the metadata it is" in findings[0].detail


def test_objects_without_metadata_are_reported(tier: TierBucket) -> None:
    stray = tier.file(0, "log").with_name(f"{0:020d}-{uuid_text(tier.view().partition.topic_id)}.log")
    stray.write_bytes(b"left behind")
    (finding,) = tier.findings()
    assert (finding.kind, finding.detail) == (Kind.ORPHAN, "its copy is not in the metadata")
    stray.with_suffix(".txt").write_bytes(b"what is this")
    stray.unlink()
    assert kinds(tier.findings()) == [Kind.FOREIGN_OBJECT]


def test_objects_left_by_a_finished_deletion_are_reported(tier: TierBucket) -> None:
    tier.step(0, DELETING)
    tier.step(0, DELETED)
    view = tier.view().with_log_start(tier.segments[1].start_offset)
    findings = tier.bucket.findings(view, tier.bucket.sizes(view.partition))
    assert [(each.kind, each.detail) for each in findings] == [(Kind.ORPHAN, "its segment was deleted")] * 3


def test_objects_of_unknown_partitions_are_reported(tier: TierBucket) -> None:
    assert list(tier.bucket.stray_findings([tier.view().partition])) == []
    assert kinds(list(tier.bucket.stray_findings([]))) == [Kind.ORPHAN] * 9


def test_a_masked_prefix_is_not_shown(tmp_path: Path) -> None:
    tier = TierBucket(tmp_path, {"key.prefix": "secret/", "key.prefix.mask": "true"})
    tier.fill(1)
    tier.copy()
    tier.file(0, "log").with_name("odd").write_bytes(b"")
    tier.file(0, "log").unlink()
    findings = tier.findings()
    assert kinds(findings) == [Kind.MISSING_OBJECT, Kind.FOREIGN_OBJECT]
    assert all("secret" not in str(finding) for finding in findings)
    tier.bucket.close()


def test_an_unavailable_bucket_is_an_error_and_not_a_finding(
    tier: TierBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_request(key: str, start: int | None = None, end: int | None = None) -> None:
        raise RemoteStorageError(f"no response for {key}")

    monkeypatch.setattr(tier.bucket.storage.store, "get", refuse_request)
    with pytest.raises(RemoteStorageError, match="no response for"):
        tier.findings()


# --- single bytes ---


def test_a_flipped_byte_of_a_batch_is_reported(tier: TierBucket) -> None:
    path = tier.file(1, "log")
    second = list(iterate_headers(path.read_bytes()))[1][0]
    flip(path, second + 70)
    assert tier.findings(deep=False) == []
    findings = tier.findings()
    assert kinds(findings) == [Kind.BAD_BATCH]
    assert f"at byte {second}: checksum" in findings[0].detail


@pytest.mark.parametrize("kind", ["compressed", "encrypted"])
def test_a_flipped_byte_of_a_chunk_is_reported(kind: str, tmp_path: Path) -> None:
    tier = TierBucket(tmp_path, configs_of(kind, *write_key_pair(key_pair(), tmp_path)))
    tier.fill(1)
    tier.copy()
    flip(tier.file(0, "log"), tier.file(0, "log").stat().st_size // 2)
    assert kinds(tier.findings()) in ([Kind.DAMAGED_OBJECT], [Kind.BAD_BATCH])
    tier.bucket.close()


def test_every_flipped_byte_of_small_files_is_reported_or_has_no_effect(tier: TierBucket) -> None:
    path = tier.file(0, "indexes")
    whole = path.read_bytes()
    missed = []
    for at in range(len(whole)):
        flip(path, at)
        with_fresh_caches = Bucket.open(
            {"storage.backend.class": "filesystem", "storage.root": str(tier.root), "chunk.size": "1000"}
        )
        findings = inspect_segment(with_fresh_caches.storage, tier.segments[0])
        with_fresh_caches.close()
        path.write_bytes(whole)
        if not findings:
            missed.append(at)
        else:
            assert {finding.kind.severity for finding in findings} == {Severity.DAMAGE}
    # An entry of the offset index may name any offset of its batch.
    assert len(missed) < len(whole) // 8


# --- content of segments compared with their metadata ---


Change = Callable[[StoredSegment], None]


@pytest.fixture
def with_aborts(tmp_path: Path) -> Iterator[TierBucket]:
    tier = TierBucket(tmp_path)
    tier.fill_with_aborts()
    tier.copy()
    yield tier
    tier.bucket.close()


def tier_in_memory(tier: TierBucket) -> tuple[MemoryTier, StoredSegment]:
    """Return the first segment in a tier in memory, which tests can change."""
    metadata, storage = tier.segments[0], tier.bucket.storage
    indexes = {}
    for index_type in IndexType:
        if index_type is not IndexType.TRANSACTION or not metadata.is_txn_index_empty:
            indexes[index_type] = storage.fetch_index(metadata, index_type).read()
    stored = StoredSegment(storage.fetch_log_segment(metadata, 0).read(), indexes)
    return MemoryTier({metadata.remote_log_segment_id.id: stored}, bytes_at_most=777), stored


def test_short_reads_of_a_stream_are_combined(with_aborts: TierBucket) -> None:
    memory, stored = tier_in_memory(with_aborts)
    sizes: list[int] = []
    assert inspect_segment(memory, with_aborts.segments[0], sizes.append) == []
    assert sum(sizes) == len(stored.log)
    assert len([one for one in memory.ranges if one[1] == 0]) == 1


def test_an_aborted_transaction_missing_in_the_index_is_reported(with_aborts: TierBucket) -> None:
    memory, stored = tier_in_memory(with_aborts)
    whole = stored.indexes[IndexType.TRANSACTION]
    assert len(whole) == 2 * 34
    stored.indexes[IndexType.TRANSACTION] = whole[:34]
    (finding,) = inspect_segment(memory, with_aborts.segments[0])
    assert finding.kind is Kind.BAD_TRANSACTION_INDEX
    assert "it lacks the abort at offset 14, 1 in total" in finding.detail
    del stored.indexes[IndexType.TRANSACTION]
    (finding,) = inspect_segment(memory, with_aborts.segments[0])
    assert "it lacks the abort at offset 4, 2 in total" in finding.detail


def test_an_abort_marker_without_records_needs_no_index_entry(tmp_path: Path) -> None:
    tier = TierBucket(tmp_path)
    tier.fill_with_aborts(roll=False)
    append_marker(tier.log, 7, is_abort=True)
    append_marker(tier.log, 11, is_abort=True)
    tier.log.roll(NOW_MS)
    tier.copy()
    assert len(tier.bucket.storage.fetch_index(tier.segments[0], IndexType.TRANSACTION).read()) == 2 * 34
    assert tier.findings() == []
    tier.bucket.close()


def test_a_transaction_index_marked_empty_is_reported(with_aborts: TierBucket) -> None:
    memory, _ = tier_in_memory(with_aborts)
    (finding,) = inspect_segment(memory, replace(with_aborts.segments[0], is_txn_index_empty=True))
    assert finding.detail == "it has 2 entries, in the metadata it is empty"


def test_a_committed_transaction_in_the_index_is_reported(with_aborts: TierBucket) -> None:
    memory, stored = tier_in_memory(with_aborts)
    stored.indexes[IndexType.TRANSACTION] = struct.pack(">hqqqq", 0, 8, 5, 9, 9)
    assert Kind.BAD_TRANSACTION_INDEX in kinds(inspect_segment(memory, with_aborts.segments[0]))


def test_offsets_that_differ_from_the_metadata_are_reported(tier: TierBucket) -> None:
    memory, stored = tier_in_memory(tier)
    metadata = tier.segments[0]
    positions = [position for position, _ in iterate_headers(stored.log)]
    (behind,) = inspect_segment(memory, replace(metadata, end_offset=metadata.end_offset + 2))
    assert behind.kind is Kind.WRONG_OFFSETS
    assert behind.detail == "offsets 24-25 are missing at the end"
    whole = stored.log
    stored.log = whole[: positions[2]] + whole[positions[3] :]
    findings = inspect_segment(memory, replace(metadata, segment_size_bytes=len(stored.log)))
    assert Kind.WRONG_OFFSETS in kinds(findings)
    details = [finding.detail for finding in findings if finding.kind is Kind.WRONG_OFFSETS]
    assert "expected is offset 6" in details[0]
    stored.log = whole
    findings = inspect_segment(memory, replace(metadata, end_offset=20))
    assert Kind.WRONG_OFFSETS in kinds(findings)


def test_epochs_and_timestamps_that_differ_from_the_metadata_are_reported(tier: TierBucket) -> None:
    memory, _ = tier_in_memory(tier)
    metadata = replace(
        tier.segments[0],
        segment_leader_epochs=(EpochEntry(0, 0), EpochEntry(3, 12)),
        max_timestamp_ms=NOW_MS + 1,
    )
    findings = inspect_segment(memory, metadata)
    assert sorted(kinds(findings), key=lambda kind: kind.name) == [
        Kind.BAD_LEADER_EPOCHS,
        Kind.WRONG_EPOCH,
        Kind.WRONG_TIMESTAMP,
    ]


def test_a_segment_partly_below_the_log_start_at_copy_time_is_valid(tier: TierBucket) -> None:
    memory, stored = tier_in_memory(tier)
    stored.indexes[IndexType.LEADER_EPOCH] = encode_leader_epochs([EpochEntry(0, 5)])
    assert inspect_segment(memory, replace(tier.segments[0], segment_leader_epochs=(EpochEntry(0, 5),))) == []


@pytest.mark.parametrize(
    ("index_type", "kind"),
    [
        (IndexType.OFFSET, Kind.BAD_INDEX),
        (IndexType.TIMESTAMP, Kind.BAD_INDEX),
        (IndexType.PRODUCER_SNAPSHOT, Kind.BAD_PRODUCER_SNAPSHOT),
        (IndexType.LEADER_EPOCH, Kind.BAD_LEADER_EPOCHS),
    ],
)
def test_a_missing_or_invalid_small_file_is_reported(
    index_type: IndexType, kind: Kind, tier: TierBucket
) -> None:
    memory, stored = tier_in_memory(tier)
    stored.indexes[index_type] = b"\xff" * 25
    assert kinds(inspect_segment(memory, tier.segments[0])) == [kind]
    del stored.indexes[index_type]
    assert kinds(inspect_segment(memory, tier.segments[0])) == [kind]


def test_a_producer_snapshot_of_a_later_segment_is_reported(with_aborts: TierBucket) -> None:
    memory, _ = tier_in_memory(with_aborts)
    metadata = replace(with_aborts.segments[0], end_offset=9)
    findings = inspect_segment(memory, metadata)
    details = [finding.detail for finding in findings if finding.kind is Kind.BAD_PRODUCER_SNAPSHOT]
    assert details == ["it has offset 13, the segment ends with 9"]


def test_a_truncated_stream_is_corruption_and_a_failing_store_is_not(tier: TierBucket) -> None:
    memory, _ = tier_in_memory(tier)
    memory.cut_after = 500
    assert kinds(inspect_segment(memory, tier.segments[0])) == [Kind.BAD_BATCH]
    memory.failure = RemoteStorageError("the store is unavailable")
    with pytest.raises(RemoteStorageError, match="is unavailable"):
        inspect_segment(memory, tier.segments[0])


# --- second inspection ---


def test_only_findings_confirmed_by_a_second_inspection_are_reported(tier: TierBucket) -> None:
    tier.file(0, "log").unlink()
    flip(tier.file(1, "log"), 100)
    first = tier.findings()
    assert kinds(first) == [Kind.MISSING_OBJECT, Kind.BAD_BATCH]
    view = tier.view()
    assert confirmed_findings(first, first, [view]) == first
    assert confirmed_findings(first, [], [view]) == first[1:]
    tier.step(1, DELETING)
    assert confirmed_findings(first, first, [tier.view()]) == first[:1]


def test_a_segment_with_damaged_objects_is_not_read(tier: TierBucket) -> None:
    tier.file(0, "log").unlink()
    shallow = tier.findings(deep=False)
    ids = [segment.remote_log_segment_id for segment in tier.segments]
    read = segments_to_read([tier.view()], shallow)
    assert [segment.remote_log_segment_id for segment in read] == ids[1:]
    read = segments_to_read([tier.view()], [])
    assert [segment.remote_log_segment_id for segment in read] == ids


# --- without a broker ---


def test_offline_gaps_and_objects_without_manifest_are_reported(tier: TierBucket) -> None:
    tier.file(1, "rsm-manifest").unlink()
    views, findings = offline_views(tier.bucket, ["events"])
    assert kinds(findings) == [Kind.UNFINISHED_OBJECTS] * 2
    assert offline_views(tier.bucket, ["others"]) == ([], [])
    first, _, third = tier.segments
    (gap,) = coverage_findings(views[0])
    assert (gap.kind, gap.place) == (
        Kind.GAP,
        f"offsets {first.end_offset + 1}-{third.start_offset - 1}",
    )


def test_offline_a_manifest_of_another_segment_is_reported(tier: TierBucket) -> None:
    tier.file(0, "rsm-manifest").write_bytes(tier.file(1, "rsm-manifest").read_bytes())
    tier.file(2, "rsm-manifest").write_bytes(b"{}")
    _, findings = offline_views(tier.bucket, ())
    assert kinds(findings) == [Kind.BAD_MANIFEST] * 2


def test_offline_a_segment_with_an_invalid_manifest_is_not_reported_as_orphans_too(tier: TierBucket) -> None:
    tier.file(1, "rsm-manifest").write_bytes(b"{}")
    (view,), findings = offline_views(tier.bucket, ["events"])
    assert kinds(findings) == [Kind.BAD_MANIFEST]
    assert findings[0].segment == tier.segments[1].remote_log_segment_id.id
    assert offline_bucket_findings(tier.bucket, view, findings) == []


def test_offline_a_foreign_object_of_a_selected_topic_is_reported_with_an_invalid_manifest(
    tier: TierBucket,
) -> None:
    manifest = tier.file(1, "rsm-manifest")
    manifest.write_bytes(b"{}")
    (manifest.parent / "notes.txt").write_bytes(b"?")
    (view,), findings = offline_views(tier.bucket, ["events"])
    assert kinds(offline_bucket_findings(tier.bucket, view, findings)) == [Kind.FOREIGN_OBJECT]
    (view,), findings = offline_views(tier.bucket, ())
    assert sorted(kinds(findings), key=str) == [Kind.BAD_MANIFEST, Kind.FOREIGN_OBJECT]
    assert offline_bucket_findings(tier.bucket, view, findings) == []


def test_offline_a_masked_prefix_is_not_shown_for_an_invalid_manifest(tmp_path: Path) -> None:
    tier = TierBucket(tmp_path, {"key.prefix": "secret/", "key.prefix.mask": "true"})
    tier.fill(1)
    (segment,) = tier.copy()
    tier.file(0, "rsm-manifest").write_bytes(b"{}")
    _, (finding,) = offline_views(tier.bucket, ())
    keys = tier.bucket.keys(segment)
    assert (finding.kind, finding.place) == (Kind.BAD_MANIFEST, keys.display_name(keys.manifest))
    assert "secret" not in str(finding)
    tier.bucket.close()
