from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.clients.transport.frames import FrameReader
from tidelog.protocol.errors import DecodeError


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> list[bytes]:
    """Receive `data` in chunks of the given sizes; the rest in chunks of any size."""
    frames: list[bytes] = []
    at = 0
    sizes = iter(cuts)
    while at < len(data):
        buffer = reader.buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data) - at, next(sizes, 1 << 20))
        buffer[:count] = data[at : at + count]
        at += count
        frames += [bytes(frame) for frame in reader.on_received(count)]
    return frames


def frame_of(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(
    st.lists(st.integers(0, 200_000), max_size=6),
    st.lists(st.integers(1, 70_000), max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_frames_are_received_in_any_chunks(sizes: list[int], cuts: list[int]) -> None:
    payloads = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(frame_of, payloads))
    assert feed(FrameReader(200_000), stream, cuts) == payloads


@given(st.lists(st.integers(0, 40), max_size=40))
@settings(max_examples=60, deadline=None)
def test_small_frames_are_received_byte_by_byte(sizes: list[int]) -> None:
    payloads = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(frame_of, payloads))
    assert feed(FrameReader(1_000), stream, [1] * len(stream)) == payloads


@pytest.mark.parametrize("size", [-1, 1_001, 2**31 - 1])
def test_a_frame_over_the_bound_is_refused_before_it_is_received(size: int) -> None:
    reader = FrameReader(1_000)
    reader.buffer()[:4] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(DecodeError, match=str(size)):
        reader.on_received(4)


def test_a_returned_frame_is_not_overwritten_by_the_next() -> None:
    reader = FrameReader(1_000)
    first = frame_of(b"first")
    reader.buffer()[: len(first)] = first
    (frame,) = reader.on_received(len(first))
    second = frame_of(b"SECOND")
    reader.buffer()[: len(second)] = second
    reader.on_received(len(second))
    assert bytes(frame) == b"first"
