"""The files of a damaged segment are built from its batches; the others must be intact in remote storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tier.bucket import CONFIG, TierBucket
from tests.support.tier.segment_configs import KINDS, configs_of, key_pair, write_key_pair
from tidelog.protocol.batch import BatchHeader, iterate_headers
from tidelog.remote.inspection.findings import Kind
from tidelog.remote.repair.repair import damaged_segments
from tidelog.remote.repair.replica_records import difference
from tidelog.remote.repair.segment_files import (
    NotRepairable,
    complete_files,
    log_path,
    require_replaceable,
)


def tier_of(tmp_path: Path, kind: str = "plain") -> TierBucket:
    tier = TierBucket(tmp_path, configs_of(kind, *write_key_pair(key_pair(), tmp_path)))
    tier.fill(segments=1)
    tier.fill_with_aborts()
    tier.copy()
    assert tier.findings() == []
    return tier


def local_batches(tier: TierBucket, number: int, directory: Path) -> list[BatchHeader]:
    """Write the log of a segment, as a replica has it, to `directory`; return its headers."""
    metadata = tier.segments[number]
    segment = tier.log.segments.floor(metadata.start_offset)
    assert segment is not None
    data = segment.file.pread(1 << 30, 0)
    directory.mkdir()
    log_path(directory, metadata).write_bytes(data)
    return [header for _, header in iterate_headers(data)]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_log_is_replaced_in_every_format(kind: str, number: int, tmp_path: Path) -> None:
    tier = tier_of(tmp_path, kind)
    metadata = tier.segments[number]
    flip(tier.file(number, "log"))
    (damaged,) = damaged_segments(tier.findings(), [tier.view()])
    assert damaged.metadata.remote_log_segment_id == metadata.remote_log_segment_id
    require_replaceable(damaged.findings)
    headers = local_batches(tier, number, tmp_path / "repair")
    assert difference(headers, metadata) is None
    storage = tier.bucket.storage
    storage.replace_log_segment_data(
        metadata, complete_files(tmp_path / "repair", metadata, headers, storage, CONFIG)
    )
    assert tier.findings() == []
    tier.bucket.close()


def test_damaged_indexes_are_built_again_from_the_batches(tmp_path: Path) -> None:
    tier = tier_of(tmp_path)
    before = tier.file(0, "indexes").read_bytes()
    data = bytearray(before)
    data[0] ^= 0x80  # the first entry of the offset index
    tier.file(0, "indexes").write_bytes(data)
    tier.bucket.storage.discard_cached(tier.segments[0], 0, 1)
    (damaged,) = damaged_segments(tier.findings(), [tier.view()])
    assert {finding.kind for finding in damaged.findings} == {Kind.BAD_INDEX}
    headers = local_batches(tier, 0, tmp_path / "repair")
    storage, metadata = tier.bucket.storage, tier.segments[0]
    storage.replace_log_segment_data(
        metadata, complete_files(tmp_path / "repair", metadata, headers, storage, CONFIG)
    )
    assert tier.findings() == []
    tier.bucket.close()


def test_a_segment_without_its_manifest_cannot_be_repaired(tmp_path: Path) -> None:
    tier = tier_of(tmp_path)
    tier.file(0, "rsm-manifest").unlink()
    tier.bucket.storage.discard_cached(tier.segments[0], 0, 1)
    headers = local_batches(tier, 0, tmp_path / "repair")
    with pytest.raises(NotRepairable, match="small files do not exist"):
        complete_files(tmp_path / "repair", tier.segments[0], headers, tier.bucket.storage, CONFIG)
    tier.bucket.close()


def test_damaged_producer_snapshots_cannot_be_built_again(tmp_path: Path) -> None:
    tier = tier_of(tmp_path)
    path = tier.file(1, "indexes")
    data = bytearray(path.read_bytes())
    snapshot = tier.log.producers.snapshots.path(tier.segments[1].end_offset + 1)
    at = bytes(data).index(Path(snapshot).read_bytes())
    data[at + 3] ^= 1
    path.write_bytes(data)
    tier.bucket.storage.discard_cached(tier.segments[1], 0, 1)
    (damaged,) = damaged_segments(tier.findings(), [tier.view()])
    with pytest.raises(NotRepairable, match="its producer snapshot is damaged"):
        require_replaceable(damaged.findings)
    tier.bucket.close()


def test_batches_of_another_size_or_range_are_not_those_of_the_segment(tmp_path: Path) -> None:
    tier = tier_of(tmp_path)
    metadata = tier.segments[0]
    headers = local_batches(tier, 0, tmp_path / "repair")
    assert "bytes" in (difference(headers[:-1], metadata) or "")
    assert "bytes" in (difference([], metadata) or "")
    shifted = [header._replace(base_offset=header.base_offset + 100) for header in headers]
    assert "offsets" in (difference(shifted, metadata) or "")
    other_epoch = [header._replace(partition_leader_epoch=5) for header in headers]
    assert "leader epoch 5, not 0" in (difference(other_epoch, metadata) or "")
    tier.bucket.close()
