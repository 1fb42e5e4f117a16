"""Keys, custom metadata, encoded chunk sizes and chunk positions."""

from __future__ import annotations

import base64
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tier.sealed_segments import make_segment
from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.layout.chunk_index import (
    ChunkIndex,
    FixedChunkIndex,
    VariableChunkIndex,
    chunk_count,
)
from tidelog.remote.objects.layout.chunk_sizes import (
    chunk_sizes_from_text,
    chunk_sizes_text,
    pack_chunk_sizes,
    unpack_chunk_sizes,
)
from tidelog.remote.objects.layout.custom_metadata import (
    CustomMetadata,
    decode_custom_metadata,
    encode_custom_metadata,
)
from tidelog.remote.objects.layout.object_keys import ObjectKeys

SIZES = st.lists(st.integers(0, 2**31 - 1), max_size=40) | st.lists(st.integers(1000, 1300), max_size=400)
TEXTS = st.none() | st.text(max_size=40)


def test_keys_start_with_the_prefix(tmp_path: Path) -> None:
    metadata = make_segment(tmp_path, b"x", start_offset=1234).metadata
    keys = ObjectKeys("some/prefix-").new(metadata)
    segment_id = keys.log[-26:-4]
    assert keys.log == (f"some/prefix-topic1-lZ6vvmajTWKDBUTV6SQAtQ/7/00000000000000001234-{segment_id}.log")
    assert keys.indexes == keys.log.removesuffix(".log") + ".indexes"
    assert keys.manifest == keys.log.removesuffix(".log") + ".rsm-manifest"


def test_prefix_and_path_of_the_custom_metadata_take_precedence(tmp_path: Path) -> None:
    metadata = make_segment(tmp_path, b"x").metadata
    custom_metadata = encode_custom_metadata(CustomMetadata(12, "older/", "elsewhere"))
    keys = ObjectKeys("new/").of(replace(metadata, custom_metadata=custom_metadata))
    assert keys.all == ["older/elsewhere.rsm-manifest", "older/elsewhere.indexes", "older/elsewhere.log"]


def test_a_masked_prefix_is_not_shown(tmp_path: Path) -> None:
    keys = ObjectKeys("secret/", masks_prefix=True).new(make_segment(tmp_path, b"x").metadata)
    assert keys.display_name(keys.log) == f"<prefix>/{keys.path}.log"


@given(st.none() | st.integers(0, 2**62), TEXTS, TEXTS)
def test_custom_metadata_round_trips(size: int | None, prefix: str | None, key: str | None) -> None:
    metadata = CustomMetadata(size, prefix, key)
    data = encode_custom_metadata(metadata)
    assert (decode_custom_metadata(data) if data else CustomMetadata()) == metadata


@given(st.binary(min_size=1, max_size=60))
def test_random_custom_metadata_is_read_or_refused(data: bytes) -> None:
    try:
        metadata = decode_custom_metadata(data)
    except DecodeError:
        return
    encoded = encode_custom_metadata(metadata)
    assert (decode_custom_metadata(encoded) if encoded else CustomMetadata()) == metadata


def test_fields_of_later_versions_are_ignored() -> None:
    encoded = encode_custom_metadata(CustomMetadata(object_prefix="p/"))
    assert decode_custom_metadata(b"\x02" + encoded[1:] + b"\x09\x02hi") == CustomMetadata(object_prefix="p/")


@pytest.mark.parametrize(
    ("sizes", "packed"),
    [
        ([], "00000000"),
        ([10], "00000001 0000000a"),
        ([10, 3], "00000002 0000000a 01 00 00000003"),
        ([1_000_000, 1_000_010, 1_000_020, 7], "00000004 000f4240 01 00 0a 14 00000007"),
        ([1, 257, 5], "00000003 00000001 02 0000 0100 00000005"),
        ([0, 2**31 - 1, 0], "00000003 00000000 04 00000000 7fffffff 00000000"),
    ],
)
def test_chunk_sizes_are_encoded_as_differences_from_the_smallest(sizes: list[int], packed: str) -> None:
    assert pack_chunk_sizes(sizes) == bytes.fromhex(packed)
    assert unpack_chunk_sizes(bytes.fromhex(packed)) == sizes


@given(SIZES)
def test_chunk_sizes_round_trip(sizes: list[int]) -> None:
    assert chunk_sizes_from_text(chunk_sizes_text(sizes)) == sizes


@given(st.binary(max_size=60))
def test_random_encoded_sizes_are_read_or_refused(data: bytes) -> None:
    for decode in (
        lambda: unpack_chunk_sizes(data),
        lambda: chunk_sizes_from_text(base64.b64encode(data).decode()),
    ):
        try:
            sizes = decode()
        except DecodeError:
            continue
        assert all(0 <= size < 2**31 for size in sizes)


def test_an_oversized_count_of_chunks_is_refused_by_its_header() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(11 * 1024 * 1024))
    with pytest.raises(DecodeError, match="allowed are"):
        chunk_sizes_from_text(base64.b64encode(bomb).decode())


@given(st.integers(1, 50), st.integers(1, 500), st.data())
def test_chunks_are_contiguous(chunk_size: int, file_size: int, data: st.DataObject) -> None:
    count = chunk_count(chunk_size, file_size)
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=count, max_size=count))
    last = file_size - (count - 1) * chunk_size
    indexes: list[ChunkIndex] = [
        FixedChunkIndex(chunk_size, file_size, chunk_size + 28, last + 28),
        VariableChunkIndex(chunk_size, file_size, sizes),
    ]
    for index in indexes:
        chunks = [index.chunk(number) for number in range(index.count)]
        assert chunks[0].original_position == chunks[0].transformed_position == 0
        for before, after in pairwise(chunks):
            assert before.original_end == after.original_position
            assert before.transformed_end == after.transformed_position
        assert chunks[-1].original_end == file_size
        for position in range(file_size):
            chunk = index.chunk(index.index_at(position))
            assert chunk.original_position <= position < chunk.original_end
