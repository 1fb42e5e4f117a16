"""Object names and descriptions, and the segments they belong to."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tier.segment_metadata import copy_start
from tidelog.protocol.errors import DecodeError
from tidelog.remote.inspection.findings import Finding, Kind, offsets_text
from tidelog.remote.inspection.manifest_metadata import described_segment
from tidelog.remote.objects.layout.chunk_index import FixedChunkIndex
from tidelog.remote.objects.layout.manifest import SegmentManifest, encode_manifest
from tidelog.remote.objects.layout.object_keys import ObjectKeys, ObjectName, parse_key, partition_prefix
from tidelog.remote.objects.layout.transform import Transform
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentState, TopicIdPartition

UUIDS = st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
TOPICS = st.text("abc.-_09", min_size=1, max_size=12)


@given(TOPICS, UUIDS, st.integers(0, 99), st.integers(0, 2**50), st.sampled_from(["", "p/", "a-b/0/"]))
def test_an_object_key_gives_partition_and_segment(
    topic: str, topic_id: UUID, number: int, start: int, prefix: str
) -> None:
    partition = TopicIdPartition(topic_id, topic, number)
    metadata = copy_start(1, start, start + 5, partition=partition)
    keys = ObjectKeys(prefix).of(metadata)
    for key, suffix in ((keys.log, "log"), (keys.indexes, "indexes"), (keys.manifest, "rsm-manifest")):
        assert key.startswith(partition_prefix(prefix, partition))
        segment_id = metadata.remote_log_segment_id.id
        assert parse_key(key, prefix) == ObjectName(partition, start, segment_id, suffix)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "tides/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log",
        "p/tides-AAAAAAAAAAAAAAAAAAAAAA/0/0-AAAAAAAAAAAAAAAAAAAAAA.log",
        "p/tides-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.txt",
        "p/tides-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log.tmp",
        "tides-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log",
    ],
)
def test_other_keys_are_not_parsed(key: str) -> None:
    assert parse_key(key, "p/") is None


def test_a_manifest_describes_its_segment() -> None:
    metadata = copy_start(3, 10, 29, [(1, 10), (4, 20)], size_bytes=2500, is_txn_index_empty=True)
    manifest = SegmentManifest(FixedChunkIndex(1000, 2500, 1000, 500), {}, Transform())
    read_back = described_segment(encode_manifest(manifest, metadata, None))
    assert read_back.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    assert read_back.remote_log_segment_id == metadata.remote_log_segment_id
    assert read_back.segment_leader_epochs == metadata.segment_leader_epochs
    assert (read_back.start_offset, read_back.end_offset, read_back.segment_size_bytes) == (10, 29, 2500)
    assert (read_back.max_timestamp_ms, read_back.is_txn_index_empty) == (1029, True)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"chunkIndex":{"originalFileSize":"x"}}', b"\xff"])
def test_an_invalid_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        described_segment(data)


def test_every_kind_of_finding_has_a_description() -> None:
    assert len({kind.meaning for kind in Kind}) == len(Kind)
    finding = Finding(Kind.GAP, None, offsets_text(3, 3), "see there")
    assert str(finding) == (
        "LOSS gap: offset 3: no segment of the log contains these offsets: they cannot be read (see there)"
    )
