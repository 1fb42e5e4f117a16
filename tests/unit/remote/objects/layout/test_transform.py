"""Compression, encryption and key wrapping: round trip, and detection of corruption."""

from __future__ import annotations

import io

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tier.segment_configs import compressible, key_pair
from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.layout.encryption import OVERHEAD_BYTES, DataKey, DataKeys, KeyRing
from tidelog.remote.objects.layout.pieces import Pieces
from tidelog.remote.objects.layout.rsa_oaep import UnwrapError, unwrap, wrap
from tidelog.remote.objects.layout.transform import DamagedChunk, Transform
from tidelog.remote.objects.upload import TransformedLog, is_compressed, plain_chunk_index

TRANSFORMS = [
    Transform(compression, data_key)
    for compression in (False, True)
    for data_key in (None, DataKeys().key_of("segment"))
]


@given(st.binary(max_size=300), st.sampled_from(TRANSFORMS))
def test_detransformation_restores_a_chunk(chunk: bytes, transform: Transform) -> None:
    stored = transform.apply(chunk)
    assert transform.undo(stored, len(chunk)) == chunk
    assert transform.transformed_size(len(chunk)) in (None, len(stored))


@given(st.integers(0, 10**6), st.sampled_from([t for t in TRANSFORMS if not t.is_identity]))
def test_a_changed_byte_is_detected_by_checksum_or_tag(place: int, transform: Transform) -> None:
    chunk = compressible(700)
    stored = bytearray(transform.apply(chunk))
    stored[place % len(stored)] ^= 0x20
    try:
        # A changed bit of the frame's header may have no effect; then the chunk is unchanged.
        assert transform.undo(bytes(stored), len(chunk)) == chunk
    except DamagedChunk:
        pass


def test_a_frame_has_its_content_size_and_a_checksum() -> None:
    frame = Transform(compression=True).apply(b"abc" * 100)
    parameters = zstandard.get_frame_parameters(frame)
    assert parameters.content_size == 300
    assert parameters.has_checksum


def test_a_frame_larger_than_the_chunk_is_not_decompressed() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 24))
    with pytest.raises(DamagedChunk, match="the content size of the frame is 16777216 bytes; allowed are 10"):
        Transform(compression=True).undo(bomb, 10)


def test_encryption_of_the_same_chunk_is_never_equal() -> None:
    key = DataKeys().key_of("segment")
    assert key.encrypt(b"abc") != key.encrypt(b"abc")
    assert len(key.encrypt(b"abc")) == 3 + OVERHEAD_BYTES


def test_data_keys_are_the_same_for_one_name_of_one_manager_only() -> None:
    data_keys = DataKeys()
    key = data_keys.key_of("segment")
    assert key == data_keys.key_of("segment")
    others = (data_keys.key_of("segment 2"), DataKeys().key_of("segment"))
    assert len({part for each in (key, *others) for part in (each.key, each.aad)}) == 6


def test_data_keys_of_a_ring_are_those_of_every_process_with_the_same_active_pair() -> None:
    pairs = {"old": key_pair(0), "new": key_pair(1)}
    key = KeyRing("new", pairs).data_keys().key_of("segment")
    assert key == KeyRing("new", {"new": pairs["new"]}).data_keys().key_of("segment")
    assert key != KeyRing("old", pairs).data_keys().key_of("segment")
    assert key != KeyRing("new", pairs).data_keys().key_of("segment 2")


def test_a_data_key_is_never_shown() -> None:
    assert "hidden" in repr(DataKeys().key_of("segment"))
    assert "hidden" in repr(Transform(data_key=DataKey(b"k" * 32, b"a" * 32)))


@settings(max_examples=20)
@given(st.binary(max_size=126))
def test_a_wrapped_key_is_unwrapped(message: bytes) -> None:
    assert unwrap(wrap(message, key_pair().public), key_pair().private) == message


@settings(max_examples=20)
@given(st.integers(0, 255), st.integers(1, 255))
def test_a_corrupt_wrapped_key_is_refused(place: int, change: int) -> None:
    wrapped = bytearray(wrap(b"k" * 32, key_pair().public))
    wrapped[place] ^= change
    with pytest.raises(UnwrapError):
        unwrap(bytes(wrapped), key_pair().private)


def test_a_message_too_long_for_the_key_is_refused() -> None:
    with pytest.raises(ValueError, match="127 bytes are too many"):
        wrap(bytes(127), key_pair().public)


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 70), st.sampled_from(TRANSFORMS))
def test_a_log_is_transformed_by_chunk_with_recorded_positions(
    log: bytes, chunk_size: int, read_size: int, transform: Transform
) -> None:
    source = TransformedLog(io.BytesIO(log), len(log), chunk_size, transform)
    stored = b"".join(iter(lambda: source.read(read_size), b""))
    index = source.chunk_index()
    assert source.stored_bytes == len(stored)
    assert source.size in (None, len(stored))
    chunks = [index.chunk(number) for number in range(index.count)]
    parts = [
        transform.undo(stored[c.transformed_position : c.transformed_end], c.original_size) for c in chunks
    ]
    assert b"".join(parts) == log
    if transform.is_identity:
        assert plain_chunk_index(len(log), chunk_size) == index


@pytest.mark.parametrize("announced", [9, 11])
def test_a_log_of_another_size_than_announced_is_not_copied(announced: int) -> None:
    source = TransformedLog(io.BytesIO(bytes(10)), announced, 4, Transform())
    with pytest.raises(ValueError, match="the log file has 1"):
        while source.read(100):
            pass


def test_a_log_without_a_complete_header_has_no_batch() -> None:
    with pytest.raises(DecodeError, match="a log of 60 bytes has no complete batch header"):
        is_compressed(bytes(60))


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=6), st.data())
def test_a_slice_of_buffers_equals_the_slice_of_their_concatenation(
    parts: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(parts)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    assert Pieces(list(parts)).slice(start, end) == whole[start:end]
    assert len(Pieces(list(parts))) == len(whole)
