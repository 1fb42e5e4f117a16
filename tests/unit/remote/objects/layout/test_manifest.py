"""The manifest: round trip, and invalid ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tier.sealed_segments import make_segment
from tests.support.tier.segment_configs import key_pair
from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.layout.chunk_index import FixedChunkIndex, VariableChunkIndex
from tidelog.remote.objects.layout.encryption import DataKeys, KeyRing
from tidelog.remote.objects.layout.manifest import (
    SegmentManifest,
    decode_manifest,
    encode_manifest,
    place_indexes,
)
from tidelog.remote.objects.layout.transform import Transform
from tidelog.remote.ports.storage_manager import IndexType

ALL = dict.fromkeys(IndexType, 10)
PLAIN = SegmentManifest(FixedChunkIndex(100, 1000, 110, 110), place_indexes(ALL), Transform())


@pytest.fixture
def metadata(tmp_path: Path) -> Any:
    return make_segment(tmp_path, b"x").metadata


def fields(metadata: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(encode_manifest(PLAIN, metadata, None))
    return read


def test_small_files_are_contiguous_with_the_transaction_index_last() -> None:
    sizes = {kind: number for number, kind in enumerate(IndexType, 1)}
    places = place_indexes(sizes)
    assert list(places) == [
        IndexType.OFFSET,
        IndexType.TIMESTAMP,
        IndexType.PRODUCER_SNAPSHOT,
        IndexType.LEADER_EPOCH,
        IndexType.TRANSACTION,
    ]
    assert [place.position for place in places.values()] == [0, 1, 3, 6, 11]


@pytest.mark.parametrize("compression", [False, True])
def test_a_manifest_round_trips(compression: bool, metadata: Any) -> None:
    ring = KeyRing("new", {"new": key_pair(0), "old": key_pair(1)})
    index = VariableChunkIndex(100, 250, [60, 70, 30]) if compression else PLAIN.chunk_index
    manifest = SegmentManifest(
        index, place_indexes(ALL), Transform(compression, DataKeys().key_of("segment"))
    )
    assert decode_manifest(encode_manifest(manifest, metadata, ring), ring) == manifest


def test_a_segment_of_a_previous_key_pair_is_read_after_rotation(metadata: Any) -> None:
    manifest = SegmentManifest(
        PLAIN.chunk_index, PLAIN.indexes, Transform(data_key=DataKeys().key_of("segment"))
    )
    data = encode_manifest(manifest, metadata, KeyRing("old", {"old": key_pair(1)}))
    rotated = KeyRing("new", {"new": key_pair(0), "old": key_pair(1)})
    assert decode_manifest(data, rotated) == manifest
    with pytest.raises(DecodeError, match="key pair 'old' is not in the ring: new"):
        decode_manifest(data, KeyRing("new", {"new": key_pair(0)}))
    with pytest.raises(DecodeError, match="cannot unwrap the data key of key pair 'old'"):
        decode_manifest(data, KeyRing("old", {"old": key_pair(0)}))
    with pytest.raises(DecodeError, match="encrypted with key pair 'old', but encryption is not enabled"):
        decode_manifest(data, None)


def test_an_absent_transaction_index_may_be_null_or_missing(metadata: Any) -> None:
    changed = fields(metadata)
    for form in ({**changed["segmentIndexes"], "transaction": None}, dict(changed["segmentIndexes"])):
        if form["transaction"] is not None:
            del form["transaction"]
        read = decode_manifest(json.dumps({**changed, "segmentIndexes": form}).encode(), None)
        assert IndexType.TRANSACTION not in read.indexes


def test_fields_of_later_versions_are_ignored(metadata: Any) -> None:
    changed = {**fields(metadata), "somethingNew": {"a": 1}, "encryption": None}
    changed["chunkIndex"]["also"] = 1
    del changed["remoteLogSegmentMetadata"]
    assert decode_manifest(json.dumps(changed).encode(), None) == PLAIN


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["version"], "2"),
        (["compression"], "yes"),
        (["chunkIndex", "type"], "other"),
        (["chunkIndex", "originalChunkSize"], 0),
        (["chunkIndex", "originalFileSize"], -1),
        (["chunkIndex", "originalFileSize"], 2**31),
        (["chunkIndex"], None),
        (["segmentIndexes", "offset", "position"], "1"),
        (["segmentIndexes", "offset", "size"], True),
        (["encryption"], {"dataKey": "a:b", "aad": ""}),
    ],
)
def test_an_invalid_manifest_is_refused(path: list[str], value: object, metadata: Any) -> None:
    changed = fields(metadata)
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(DecodeError):
        decode_manifest(json.dumps(changed).encode(), None)


def test_a_wrong_number_of_chunk_sizes_is_refused(metadata: Any) -> None:
    manifest = SegmentManifest(
        VariableChunkIndex(100, 250, [60, 70, 30]), PLAIN.indexes, Transform(compression=True)
    )
    read = json.loads(encode_manifest(manifest, metadata, None))
    read["chunkIndex"]["originalFileSize"] = 350
    with pytest.raises(DecodeError, match="3 chunks of 100 bytes do not add up to 350"):
        decode_manifest(json.dumps(read).encode(), None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("version", "chunkIndex", "segmentIndexes", "compression", "encryption")


@given(
    st.binary(max_size=50)
    | st.dictionaries(st.sampled_from(NAMES), JSON).map(lambda v: json.dumps(v).encode())
)
def test_a_manifest_of_random_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_manifest(data, None)
